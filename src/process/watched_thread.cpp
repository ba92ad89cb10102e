#include "process/watched_thread.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

namespace tracesmith::process {
namespace {

std::string_view stackOf(const Snapshot& s) {
  const uint64_t red_zone = s.stack_pointer - s.stack_begin;
  return std::string_view(s.stack).substr(std::min<uint64_t>(red_zone, s.stack.size()));
}

}  // namespace

WaitingPlace::WaitingPlace(const Snapshot& s)
    : stack_pointer_(s.stack_pointer),
      pc_(s.pc),
      size_(stackOf(s).size()),
      hash_(std::hash<std::string_view>()(stackOf(s))) {}

bool WaitingPlace::still(pid_t pid, const TaskActivity& activity) const {
  if (activity.waitsAt() != std::pair(stack_pointer_, pc_)) return false;
  std::string now(size_, '\0');
  return ProcessMemory(pid).read(stack_pointer_, now.data(), now.size()) && std::hash<std::string_view>()(now) == hash_;
}

bool WatchedThread::stays(pid_t pid) {
  if (!task) return false;
  if (!activity) activity = std::make_unique<TaskActivity>(pid, task->tid);
  const bool ran = activity->hasRun(), was_known = known && on_cpu == false;
  if (was_known && (!ran || (place && place->still(pid, *activity)))) {
    if (ran) place.reset();
    ++quiet;
    return true;
  }
  place.reset();
  quiet = 0;
  on_cpu = activity->isOnCpu();
  return false;
}

}  // namespace tracesmith::process
