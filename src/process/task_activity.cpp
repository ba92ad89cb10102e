#include "process/task_activity.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

constexpr int64_t kFiles = 2;  // of a thread

/// How many more files may stay open, of all threads together: half of those that this process may have.
std::atomic<int64_t>& filesLeft() {
  static std::atomic<int64_t> left = [] {
    rlimit limit{};
    const bool known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return static_cast<int64_t>(known ? std::min<rlim_t>(limit.rlim_cur, 1 << 20) / 2 : 0);
  }();
  return left;
}

}  // namespace

TaskActivity::TaskActivity(pid_t pid, pid_t tid)
    : folder_("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid)) {
  keeps_ = filesLeft().fetch_sub(kFiles) >= kFiles;
  if (!keeps_) filesLeft() += kFiles;
  if (!keeps_) return;
  times_.emplace(folder_ + "/schedstat");
  stat_.emplace(folder_ + "/stat");
}

TaskActivity::~TaskActivity() {
  if (keeps_) filesLeft() += kFiles;
}

std::optional<hardware::SmallFile> TaskActivity::fresh(const char* name) const {
  if (keeps_) return std::nullopt;
  return hardware::SmallFile(folder_ + name);
}

bool TaskActivity::hasRun() {
  if (times_missing_) return true;
  std::optional<hardware::SmallFile> once = fresh("/schedstat");
  hardware::SmallFile& times = once ? *once : *times_;
  std::string_view content;
  if (!times.read(content)) {
    times_missing_ = times.error() == ENOENT;
    return true;
  }
  // Time on a CPU, time in its queue, turns: queueing alone is not running.
  const size_t first = content.find(' '), last = content.rfind(' ');
  std::string now(content.substr(0, first));
  if (last != std::string_view::npos) now += content.substr(last);
  if (now == last_) return false;
  last_ = std::move(now);
  return true;
}

std::optional<bool> TaskActivity::isOnCpu() {
  std::optional<hardware::SmallFile> once = fresh("/stat");
  hardware::SmallFile& stat = once ? *once : *stat_;
  std::string_view content;
  if (!stat.read(content)) return std::nullopt;
  const size_t name_end = content.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= content.size()) return std::nullopt;
  return content[name_end + 2] == 'R';
}

std::optional<std::pair<uint64_t, uint64_t>> TaskActivity::waitsAt() const {
  hardware::SmallFile file(folder_ + "/syscall");
  std::string_view content;
  if (!file.read(content)) return std::nullopt;
  // Number and arguments of the call, stack pointer, program counter; or "running".
  const size_t last = content.rfind(" 0x"), before = last == 0 ? last : content.rfind(" 0x", last - 1);
  if (last == std::string_view::npos || before == std::string_view::npos) return std::nullopt;
  const std::string words(content.substr(before));
  unsigned long long stack = 0, counter = 0;
  if (std::sscanf(words.c_str(), " 0x%llx 0x%llx", &stack, &counter) != 2) return std::nullopt;
  return std::pair<uint64_t, uint64_t>(stack, counter);
}

Life::Life(pid_t pid) : pid_(pid), fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

Life::~Life() {
  if (fd_ >= 0) ::close(fd_);
}

bool Life::ended() const {
  if (fd_ < 0) {
    const std::optional<Vitals> now = vitals("", pid_);
    return !now || now->state == 'Z' || now->state == 'X';
  }
  pollfd p{fd_, POLLIN, 0};
  return ::poll(&p, 1, 0) > 0;
}

}  // namespace tracesmith::process
