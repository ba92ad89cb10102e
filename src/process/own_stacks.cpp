#include "process/own_stacks.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "hardware/process.hpp"
#include "process/attach.hpp"
#include "process/modules.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

// A line for the version of Python (p), each note (n), each thread (t) and each of its frames (f); parts of a line are
// separated by tabs.
constexpr std::string_view kFirst = "tracesmith stacks 1";
constexpr int64_t kPatienceNs = 3'000'000'000;
constexpr auto kLook = std::chrono::milliseconds(2);
constexpr off_t kMostBytes = 64 << 20;
constexpr size_t kMostThreads = 65536, kMostFrames = 200000;

/// Without what separates parts and lines.
std::string part(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\t' || c == '\n' ? ' ' : c;
  return out;
}

std::string number(std::optional<int64_t> n) { return n ? std::to_string(*n) : "-"; }

std::optional<int64_t> numberIn(std::string_view text) {
  int64_t n = 0;
  return parseInt(std::string(text), n) ? std::optional(n) : std::nullopt;
}

std::string_view next(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return word;
}

Result<std::string> readAnswer(const std::string& path, uid_t owner) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errnoStatus("read", path);
  ::unlink(path.c_str());
  std::string bytes;
  struct stat st;
  const bool good = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == owner && st.st_size <= kMostBytes;
  if (good) bytes.resize(static_cast<size_t>(st.st_size));
  const bool whole = good && ::pread(fd, bytes.data(), bytes.size(), 0) == st.st_size;
  ::close(fd);
  return whole ? Result<std::string>(bytes) : Status::corrupt(path + " is no answer of the probe");
}

Result<std::string> ask(pid_t pid, ring::RingReader& ring, uid_t owner) {
  ring::RingHeader& h = ring.header();
  const uint32_t wanted = ++h.stacks_wanted;
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&h.stacks_wanted), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  const int64_t deadline = rawClock() + kPatienceNs;
  while (static_cast<int32_t>(h.stacks_given.load() - wanted) < 0) {
    if (rawClock() > deadline) {
      const std::optional<Vitals> now = vitals("", pid);
      return Status::timeout("the probe in process " + std::to_string(pid) + " did not tell its stacks within 3 s" +
                             (now && now->state == 'T' ? ": the process is stopped" : ""));
    }
    std::this_thread::sleep_for(kLook);
  }
  if (const uint32_t error = h.stacks_error.load())
    return Status::unavailable("the probe in process " + std::to_string(pid) +
                               " could not tell its stacks: " + std::strerror(static_cast<int>(error)));
  return readAnswer(ring.path() + ".stacks", owner);
}

}  // namespace

std::string ownStacksText(const Stacks& stacks) {
  std::string out = std::string(kFirst) + "\np\t" + part(stacks.python_version) + "\n";
  for (const std::string& n : stacks.notes) out += "n\t" + part(n) + "\n";
  for (const ThreadStack& t : stacks.threads) {
    const std::string gil = !t.holds_gil ? "-" : *t.holds_gil ? "1" : "0";
    out += "t\t" + number(t.tid) + "\t" + part(t.name) + "\t" + std::to_string(t.python) + "\t" + gil + "\t" +
           std::to_string(t.changed) + "\t" + std::to_string(t.truncated) + "\t" + std::to_string(t.damaged) + "\n";
    for (const Frame& f : t.frames)
      out +=
          "f\t" + number(f.line) + "\t" + std::to_string(f.more) + "\t" + part(f.function) + "\t" + part(f.file) + "\n";
  }
  return out;
}

Result<Stacks> parseOwnStacks(std::string_view text) {
  if (next(text, '\n') != kFirst) return Status::corrupt("the probe of the process answers in an unknown form");
  Stacks stacks;
  while (!text.empty()) {
    std::string_view line = next(text, '\n');
    const std::string_view kind = next(line, '\t');
    if (kind == "p") {
      appendUtf8(stacks.python_version, next(line, '\t'));
    } else if (kind == "n" && stacks.notes.size() < 64) {
      appendUtf8(stacks.notes.emplace_back(), line);
    } else if (kind == "t" && stacks.threads.size() < kMostThreads) {
      ThreadStack& t = stacks.threads.emplace_back();
      t.tid = numberIn(next(line, '\t'));
      appendUtf8(t.name, next(line, '\t'));
      t.python = next(line, '\t') == "1";
      if (const auto gil = numberIn(next(line, '\t'))) t.holds_gil = *gil != 0;
      t.changed = next(line, '\t') == "1";
      t.truncated = next(line, '\t') == "1";
      t.damaged = next(line, '\t') == "1";
    } else if (kind == "f" && !stacks.threads.empty() && stacks.threads.back().frames.size() < kMostFrames) {
      Frame& f = stacks.threads.back().frames.emplace_back();
      f.python = true;
      f.line = numberIn(next(line, '\t'));
      f.more = static_cast<uint64_t>(std::max<int64_t>(0, numberIn(next(line, '\t')).value_or(0)));
      appendUtf8(f.function, next(line, '\t'));
      appendUtf8(f.file, line);
    }
  }
  return stacks;
}

Result<Stacks> askForStacks(pid_t pid) {
  const std::unique_ptr<ring::RingReader> ring = ringOf(pid);
  if (!ring) return Status::notFound("process " + std::to_string(pid) + " is not under the probe");
  if (ring->header().stacks_served.load() == 0)
    return Status::unsupported("the probe in process " + std::to_string(pid) + " cannot tell its stacks");
  struct stat st;
  if (::stat(ring->path().c_str(), &st) != 0) return errnoStatus("read", ring->path());
  Result<std::string> answer = ask(pid, *ring, st.st_uid);
  // Somebody else who asked at the same moment may have taken the file.
  if (!answer && answer.status().code() == Code::kNotFound) answer = ask(pid, *ring, st.st_uid);
  if (!answer) return answer.status();
  Result<Stacks> stacks = parseOwnStacks(*answer);
  if (!stacks) return stacks.status();
  stacks->pid = pid;
  const hardware::ProcessInfo info = hardware::processInfo("", pid);
  stacks->command = info.command;
  stacks->user = info.user;
  stacks->job = info.job;
  if (const int32_t rank = ring->header().rank.load(); rank >= 0) stacks->rank = rank;
  const std::vector<Task> all = tasks(pid);
  for (ThreadStack& t : stacks->threads)
    for (const Task& task : all)
      if (t.tid == task.inner) {
        t.tid = task.tid;
        t.state = task.state;
        break;
      }
  stacks->notes.push_back("its memory may not be read from outside: the probe in it told its Python frames");
  return stacks;
}

}  // namespace tracesmith::process
