#include "capture/probe/probe.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/probe/room.hpp"
#include "capture/probe/watch.hpp"
#include "capture/ring/spare.hpp"
#include "model/launcher.hpp"

namespace tracesmith::probe {
namespace {

char g_ring_path[512];
pthread_mutex_t g_start_mutex =
    PTHREAD_MUTEX_INITIALIZER;      // guards the creation of the ring; never taken on a hot path
std::atomic<bool> g_failed{false};  // creation failed: do not try again
std::atomic<bool> g_forked{false};  // child of a fork: stays out until it starts CUDA or NCCL
pthread_once_t g_once = PTHREAD_ONCE_INIT;

char g_folder[400] = {};  // from useFolder(), before there is a ring
Mode g_mode = Mode::standard;

constexpr int kMaxDepth = 64;
struct RangeStack {
  int depth;
  int64_t tid;
  struct {
    uint64_t start;
    ring::Name name;
    uint32_t domain;
  } open[kMaxDepth];
};

void copyCommand(char* out, size_t size) {
  int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t n = read(fd, out, size - 1);
  close(fd);
  for (ssize_t i = 0; i + 1 < n; ++i)
    if (out[i] == 0) out[i] = ' ';
}

int envInt(const char* const* names, int fallback) {
  for (; *names; ++names)
    if (const char* v = getenv(*names); v && *v >= '0' && *v <= '9') return atoi(v);
  return fallback;
}

/// The first of these variables that is set, as a string of the ring.
void envString(RingWriter& r, const char* const* names, std::atomic<uint32_t>& out) {
  for (; *names && out == 0; ++names)
    if (const char* v = getenv(*names); v && *v) out = r.intern(v);
}

/// Which job the process belongs to, as its launcher says.
void readJob(RingWriter& r) {
  namespace launcher = model::launcher;
  ring::RingHeader& h = r.header();
  envString(r, launcher::kJob, h.scheduled_job);
  envString(r, launcher::kStep, h.scheduled_step);
  envString(r, launcher::kPod, h.pod);
  envString(r, launcher::kNamespace, h.pod_namespace);
  if (!getenv(launcher::kInKubernetes)) return;
  const char* const host[] = {launcher::kHostName, nullptr};
  envString(r, host, h.pod);
  if (h.pod_namespace != 0) return;
  char text[64] = "";  // Kubernetes allows 63 characters
  const int fd = open(launcher::kNamespaceFile, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n > 0) h.pod_namespace = r.intern(text);
}

void atExit() {
  RingWriter* r = ring::g_ring.load();
  if (!r || r->header().pid != getpid()) return;
  stopCuda(*r);
  r->header().state.store(ring::State::ended);
}

void registerHandlers() {
  flushAtExit();
  pthread_atfork(nullptr, nullptr, [] {
    // The mapping is the parent's: the child must not write to it. Its own ring starts with CUDA or NCCL, if ever.
    if (RingWriter* parents = ring::g_ring.exchange(nullptr)) parents->unmap();
    ring::forgetThreadLane();
    forgetCuda();
    g_forked.store(true);
    g_failed.store(false);
    pthread_mutex_init(&g_start_mutex, nullptr);
  });
}

bool isOurs(const char* folder) {
  struct stat st;
  return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

ring::RingOptions usualSize() {
  ring::RingOptions options;
  if (const char* mb = getenv("TRACESMITH_RING_MB"); mb && atoi(mb) > 0) {
    uint64_t records = static_cast<uint64_t>(atoi(mb)) << 14;  // 64 bytes each
    options.lane0_records = 1024;
    while (options.lane0_records < records && options.lane0_records < ring::kMaxLaneRecords) options.lane0_records *= 2;
  }
  return options;
}

RingWriter* makeIn(const char* folder, const ring::RingOptions& options) {
  char path[512];
  snprintf(path, sizeof path, "%s/%d.%llu.ring", folder, getpid(), static_cast<unsigned long long>(ring::nowNs()));
  RingWriter* r = RingWriter::create(path, options);
  if (r) memcpy(g_ring_path, path, sizeof path);
  return r;
}

constexpr char kLittleRoom[] =
    "little room for the ring: it is smaller than usual, and records may be lost (Docker: --shm-size, or set "
    "TRACESMITH_DIR to a folder on another file system)";
constexpr char kSpareRoom[] =
    "no room for the ring in TRACESMITH_DIR: it is in /tmp (Docker: --shm-size, or set TRACESMITH_DIR to a folder on "
    "another file system)";

/// A ring as large as there is room for in the folder, else in the folder's spare, else the smallest.
RingWriter* makeRing(const char* folder) {
  const Turn turn(folder);
  ring::RingOptions options = usualSize();
  const Room room = fitRoom(folder, options);
  options.grow = room == Room::enough;  // little room may soon be less
  RingWriter* r = room == Room::none ? nullptr : makeIn(folder, options);
  if (r) {
    if (room == Room::little) note(*r, kLittleRoom);
    return r;
  }
  if (room != Room::none && errno != ENOSPC && errno != EFBIG) return nullptr;
  char spare[512];
  if (ring::spareFolder(folder, spare, sizeof spare)) {
    mkdir(spare, 0700);
    options = usualSize();
    if (ring::isGoodSpare(folder, spare) && fitRoom(spare, options) != Room::none && (r = makeIn(spare, options))) {
      note(*r, kSpareRoom);
      return r;
    }
  }
  makeSmallest(options);  // better than none
  options.grow = false;
  r = makeIn(folder, options);
  if (r) note(*r, kLittleRoom);
  return r;
}

RingWriter* make() {
  const char* folder = g_folder[0] ? g_folder : getenv("TRACESMITH_DIR");
  if (!folder || !*folder) return nullptr;
  mkdir(folder, 0700);
  if (!isOurs(folder)) return nullptr;
  RingWriter* r = makeRing(folder);
  if (!r) {
    // Leave an empty file, because there may be no room: its name says who could not record and why.
    char path[512];
    snprintf(path, sizeof path, "%s/%d.%d.failed", folder, getpid(), errno);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) close(fd);
    return nullptr;
  }
  ring::RingHeader& h = r->header();
  copyCommand(h.command, sizeof h.command);
  gethostname(h.host, sizeof h.host - 1);
  const char* m = getenv("TRACESMITH_MODE");
  h.mode = static_cast<uint32_t>(!m                    ? Mode::standard
                                 : !strcmp(m, "light") ? Mode::light
                                 : !strcmp(m, "full")  ? Mode::full
                                 : !strcmp(m, "watch") ? Mode::watch
                                                       : Mode::standard);
  if (g_folder[0]) h.mode = static_cast<uint32_t>(g_mode);
  readWindow(*r);
  const char* paused = getenv("TRACESMITH_PAUSED");
  h.recording = paused && *paused == '1' ? 0 : 1;
  // A reader waits for this ring: nothing may be overwritten unread, from the first record on.
  const char* reader = getenv("TRACESMITH_READER");
  h.reader = reader && atoi(reader) > 0 ? static_cast<uint32_t>(atoi(reader)) : 0;
  const char* colon = reader ? strchr(reader, ':') : nullptr;  // its PID namespace
  h.reader_namespace = colon ? strtoull(colon + 1, nullptr, 10) : 0;
  readRank(*r);
  readJob(*r);
  pthread_once(&g_once, registerHandlers);
  h.state = ring::State::alive;
  return r;
}

}  // namespace

void useFolder(const char* folder, Mode mode) {
  snprintf(g_folder, sizeof g_folder, "%s", folder);
  g_mode = mode;
  g_failed.store(false);
}

void flushAtExit() { atexit(atExit); }

void readRank(RingWriter& r) {
  namespace launcher = model::launcher;
  ring::RingHeader& h = r.header();
  h.rank = envInt(launcher::kRank, h.rank);
  h.world_size = envInt(launcher::kWorldSize, h.world_size);
  h.local_rank = envInt(launcher::kLocalRank, h.local_rank);
  if (const char* role = getenv("TRACESMITH_ROLE"); role && *role && h.role == 0) h.role = r.intern(role);
}

RingWriter* startRing() {
  if (RingWriter* r = ring::g_ring.load(std::memory_order_acquire)) return r;
  if (g_failed.load()) return nullptr;
  pthread_mutex_lock(&g_start_mutex);
  RingWriter* r = ring::g_ring.load();
  if (!r && !g_failed.load()) {
    int saved = errno;
    r = make();
    errno = saved;
    if (r) {
      ring::g_ring.store(r, std::memory_order_release);
      serveStacks(g_ring_path);
    } else {
      g_failed.store(true);
    }
  }
  pthread_mutex_unlock(&g_start_mutex);
  return r;
}

RingWriter* ringOrNull() {
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  return r || g_forked.load(std::memory_order_relaxed) ? r : startRing();
}

bool recording(RingWriter& r) { return r.header().recording.load(std::memory_order_relaxed); }
Mode mode(const RingWriter& r) { return static_cast<Mode>(r.header().mode.load(std::memory_order_relaxed)); }

static bool envOn(const char* name) {
  const char* v = getenv(name);
  return v && *v == '1';
}
bool wantsProxy() { return envOn("TRACESMITH_PROXY"); }
bool wantsGraphNodes() { return envOn("TRACESMITH_GRAPH_NODES"); }

void note(RingWriter& r, const char* text) {
  strncpy(r.header().note, text, sizeof r.header().note - 1);
  if (envOn("TRACESMITH_DEBUG")) fprintf(stderr, "tracesmith probe: %s\n", text);
}

// One stack for each lane, that is, for each thread: static TLS is too scarce, and dynamic TLS would allocate. Lane 0
// means too many threads.
static RangeStack* stackOfThread(RingWriter& r) {
  static RangeStack stacks[ring::kMaxLanes];
  const uint32_t lane = r.lane();
  if (lane == 0) return nullptr;
  RangeStack& s = stacks[lane];
  if (s.tid != ring::threadId()) s = {0, ring::threadId(), {}};  // the lane belonged to another thread
  return &s;
}

int pushRange(RingWriter& r, const ring::Name& name, uint32_t domain) {
  RangeStack* s = stackOfThread(r);
  if (!s) return 0;
  if (s->depth < kMaxDepth) s->open[s->depth] = {ring::nowNs(), name, domain};
  return ++s->depth;
}

int popRange(RingWriter& r, uint32_t domain) {
  RangeStack* s = stackOfThread(r);
  if (!s || s->depth == 0) return -1;
  if (s->depth > kMaxDepth) return --s->depth;  // deeper than is kept
  int at = s->depth - 1;                        // each domain has its own nesting: the innermost of this one
  while (at >= 0 && s->open[at].domain != domain) --at;
  if (at < 0) return -1;
  const auto range = s->open[at];
  --s->depth;
  for (int i = at; i < s->depth; ++i) s->open[i] = s->open[i + 1];
  if (!recording(r)) return s->depth;
  r.write(encode(ring::RangeRecord{.name = range.name,
                                   .start = range.start,
                                   .end = ring::nowNs(),
                                   .domain = range.domain,
                                   .thread = static_cast<uint32_t>(s->tid)}));
  return s->depth;
}

}  // namespace tracesmith::probe

using namespace tracesmith;
using namespace tracesmith::probe;

/// libcuda loads the library CUDA_INJECTION64_PATH names inside cuInit and calls this. 1 means success.
TS_EXPORT int InitializeInjection(void) {
  if (RingWriter* r = startRing()) {
    readRank(*r);
    startCuda(*r);
  }
  // Another tool was set before us: call it too.
  if (const char* other = getenv("TRACESMITH_NEXT_CUDA_INJECTION"); other && *other) {
    if (void* library = dlopen(other, RTLD_NOW | RTLD_LOCAL))
      if (void* entry = dlsym(library, "InitializeInjection")) reinterpret_cast<int (*)()>(entry)();
  }
  return 1;
}
