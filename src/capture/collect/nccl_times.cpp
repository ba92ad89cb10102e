#include "capture/collect/nccl_times.hpp"

#include <utility>

namespace tracesmith::capture {

constexpr size_t kMostTimes = 4096;  // an operation whose lane is read so much later has no times

std::vector<ring::OperationRecord> NcclTimes::time(const ring::LaunchTimeRecord& record) {
  times[record.number] = record;
  if (times.size() > kMostTimes) times.erase(times.begin());
  auto found = waiting.find(record.number);
  if (found == waiting.end()) return {};
  std::vector<ring::OperationRecord> operations = std::move(found->second);
  waiting.erase(found);
  return operations;
}

std::vector<ring::OperationRecord> NcclTimes::giveUp() {
  std::vector<ring::OperationRecord> all;
  for (auto& [number, operations] : std::exchange(waiting, {}))
    all.insert(all.end(), operations.begin(), operations.end());
  return all;
}

}  // namespace tracesmith::capture
