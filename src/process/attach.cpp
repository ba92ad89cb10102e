#include "process/attach.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/clock.hpp"
#include "capture/collect/training_now.hpp"
#include "capture/ring/settings.hpp"
#include "model/ring/attach.hpp"
#include "process/modules.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRingNs = 5'000'000'000, kCudaNs = 3'000'000'000;
constexpr auto kLook = std::chrono::milliseconds(10);

template <typename Condition>
bool within(int64_t ns, Condition condition) {
  const int64_t deadline = rawClock() + ns;
  while (!condition()) {
    if (rawClock() > deadline) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

bool hasLibrary(const std::vector<Module>& all, const char* begins) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Module& m) { return fs::path(m.path).filename().string().starts_with(begins); });
}

/// What late recording cannot have, in the words of the one who reads it.
void addNotes(const std::vector<Module>& mapped, const ring::RingReader& ring, std::vector<std::string>& notes) {
  const ring::RingHeader& h = ring.header();
  if (hasLibrary(mapped, "libcuda.so")) {
    (void)within(kCudaNs, [&] { return h.cuda_state.load() != 0 || !ring.alive(); });
    if (h.cuda_state.load() == 1)
      notes.push_back(
          "the GPU is recorded from now on. CUPTI came late: its times are of the system's clock, and are converted; "
          "graphs are recorded kernel by kernel");
    else if (h.cuda_state.load() == 0)
      notes.push_back("CUDA is loaded, but not in use yet: the GPU is recorded once it is");
  } else {
    notes.push_back("CUDA is not in use yet: the GPU is recorded once it is");
  }
  if (hasLibrary(mapped, "libnccl"))
    notes.push_back(
        "NCCL is loaded: communicators that were made before have no operations, nor have later ones if there were any "
        "before");
  if (h.note[0] != 0) notes.emplace_back(h.note, ::strnlen(h.note, sizeof h.note));
}

}  // namespace

Result<std::string> privateFolder(pid_t pid, std::string& seen) {
  struct stat st;
  const std::string proc = "/proc/" + std::to_string(pid);
  if (::stat(proc.c_str(), &st) != 0) return Status::notFound("no process " + std::to_string(pid));
  std::string folder;
  if (st.st_uid == ::geteuid()) {
    Result<std::string> own = ring::ringFolder();
    if (!own) return own;
    folder = *own;
  } else {
    folder = "/dev/shm/tracesmith-" + std::to_string(st.st_uid);
  }
  seen = proc + "/root" + folder;
  return folder;
}

std::unique_ptr<ring::RingReader> ringOf(pid_t pid) {
  capture::ProcessesNow here;
  for (const capture::ProcessNow& p : here.read())
    if (p.pid == pid && !p.simulated)
      if (Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(p.ring)) return std::move(*reader);
  std::string seen;  // in a container the folder is another one
  if (!privateFolder(pid, seen)) return nullptr;
  for (const std::string& path : ring::findRings(seen)) {
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (reader && (*reader)->alive() && (*reader)->process() == pid) return std::move(*reader);
  }
  return nullptr;
}

Result<Attached> attach(pid_t pid, const AttachOptions& options) {
  Attached attached;
  Result<std::vector<Module>> mapped = modules(pid);
  if (!mapped) return mapped.status();
  attached.python = looksLikePython("", pid);
  if (std::unique_ptr<ring::RingReader> ring = ringOf(pid)) {
    ring::RingHeader& h = ring->header();
    if (h.recording.load() != 0)
      return Status::invalid("process " + std::to_string(pid) + " already has the probe (mode " +
                             ring::modeName(h.mode.load()) + "): `tracesmith config` changes what it records");
    TS_TRY(ring::writeSettings(h, {"mode=" + options.mode, "recording=on"}));
    attached.resumed = true;
    attached.ring = ring->path();
    return attached;
  }
  std::string seen;
  const Result<std::string> folder = privateFolder(pid, seen);
  if (!folder) return folder.status();
  Result<VisibleFile> visible = visibleIn(pid, options.probe);
  if (!visible) return visible.status();
  ring::AttachRequest request{};
  request.version = ring::kVersion;
  for (request.mode = 0; ring::modeName(request.mode) != options.mode; ++request.mode)
    if (request.mode > ring::kWatch) return Status::invalid("there is no mode " + options.mode);
  if (folder->size() >= sizeof request.folder || visible->path.size() >= sizeof request.library)
    return Status::invalid("the path " + *folder + " is too long");
  std::memcpy(request.folder, folder->c_str(), folder->size() + 1);
  std::memcpy(request.library, visible->path.c_str(), visible->path.size() + 1);
  if (!visible->remove.empty()) ::unlink(visible->remove.c_str());  // inject() makes its own
  Injection injection;
  injection.library = options.probe;
  injection.function = "tracesmith_probe_attach";
  injection.argument.assign(reinterpret_cast<const char*>(&request), sizeof request);
  injection.patience_ns = options.patience_ns;
  injection.despite_seccomp = options.despite_seccomp;
  Result<Injected> injected = inject(pid, injection);
  if (!injected) return injected.status();
  attached.how = *injected;
  if (injected->value != 0)
    return injected->value == EPROTO
               ? Status::unsupported("process " + std::to_string(pid) + " has another version of the probe")
               : Status::io("the probe does not start: " + std::string(std::strerror(injected->value)));
  std::unique_ptr<ring::RingReader> ring;
  if (!within(kRingNs, [&] { return (ring = ringOf(pid)) != nullptr; }))
    return Status::io("the probe is in process " + std::to_string(pid) + ", but it could not make its ring in " +
                      *folder + ": no room, or no permission");
  attached.ring = ring->path();
  addNotes(*mapped, *ring, attached.notes);
  return attached;
}

Result<bool> detach(pid_t pid) {
  const std::unique_ptr<ring::RingReader> ring = ringOf(pid);
  if (!ring) {
    const Result<std::vector<Module>> mapped = modules(pid);
    if (!mapped) return mapped.status();
    return Status::notFound("process " + std::to_string(pid) + " is not under the probe, or belongs to another user");
  }
  if (const int64_t reader = ring->attachedReader())
    return Status::busy("process " + std::to_string(reader) + " records process " + std::to_string(pid) +
                        ": end that first");
  return ring->header().recording.exchange(0) != 0;
}

}  // namespace tracesmith::process
