// What the processes, threads, streams and devices of a trace are called.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::trace {

/// Reads the tables `processes`, `threads` and `devices` once. Numbers may be kNull.
class Names {
 public:
  Status load(const Reader& reader);

  /// "rank 3 · python3 (pid 4711)", as much of it as is known.
  std::string process(std::string_view node, int64_t rank, int64_t pid) const;
  /// "autograd (4712)" or "thread 4712".
  std::string thread(std::string_view node, int64_t rank, int64_t pid, int64_t tid) const;
  /// "stream 7", with its name where it has one.
  std::string stream(std::string_view node, int64_t rank, int64_t device, int64_t stream) const;
  /// "GPU 0 · NVIDIA H100".
  std::string device(std::string_view node, int64_t device) const;
  /// "python3", or empty.
  std::string_view program(std::string_view node, int64_t rank, int64_t pid) const;
  bool isProcess(std::string_view node, int64_t rank, int64_t pid) const {
    return processes_.contains({node, rank, pid});
  }
  bool isDevice(std::string_view node, int64_t device) const { return devices_.contains({node, device}); }
  /// Process id of a rank, for rows that have none; kNull if unknown or not unique.
  int64_t pidOf(std::string_view node, int64_t rank) const;

 private:
  using ThreadKey = std::tuple<std::string_view, int64_t, int64_t, int64_t>;  // node, rank, pid, tid
  std::map<std::tuple<std::string_view, int64_t, int64_t>, std::string_view> processes_;
  std::map<std::pair<std::string_view, int64_t>, int64_t> pids_;
  std::map<ThreadKey, std::string_view> threads_;
  std::map<std::pair<std::string_view, int64_t>, std::string_view> devices_;
};

}  // namespace tracesmith::trace
