// Processes and threads of an input: their numbers, also where the source names them, and what it says about them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trace/import/losses.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

/// Numbers for names, the same for all inputs of one import: "5555" is 5555, "stream 7" is 7 unless another name has 7,
/// anything else is a negative number.
class NameNumbers {
 public:
  int64_t of(std::string_view name);

 private:
  std::unordered_map<std::string, int64_t> numbers_;
  std::unordered_map<int64_t, std::string> taken_;
  int64_t next_ = -2;  // Kineto writes -1 for "unknown"
};

/// Names that are shared by the inputs of one import.
struct TrackNames {
  NameNumbers processes, threads;
};

/// Of one input.
class Tracks {
 public:
  Tracks(TrackNames& names, Losses& losses) : names_(names), losses_(losses) {}

  /// Number of a pid or tid as written; kNull where there is none. Remembers names.
  int64_t process(std::string_view token);
  int64_t thread(int64_t pid, std::string_view token);

  /// Metadata events. Values are JSON as written.
  void processName(int64_t pid, std::string_view value);
  void processLabels(int64_t pid, std::string_view value);
  void processSortIndex(int64_t pid, std::string_view value);
  void threadName(int64_t pid, int64_t tid, std::string_view value);

  /// Whose a number of the file is: files of several ranks number processes and GPUs anew (`tracesmith export`).
  struct Owner {
    int64_t rank = kNull, node = kNull, pid = kNull, device = kNull;  // node: string id
    std::string node_name, name;
  };
  void owner(int64_t number, Owner owner);
  const Owner* ownerOf(int64_t number) const {
    auto it = owners_.find(number);
    return it == owners_.end() ? nullptr : &it->second;
  }
  const std::map<int64_t, Owner>& owners() const { return owners_; }
  /// Writes into a row whose its number is; `pid` is the number on entry.
  template <typename Row>
  void own(Row& row) const {
    const Owner* who = owners_.empty() ? nullptr : ownerOf(row.pid);
    if (!who) return;
    row.rank = who->rank;
    row.node = who->node;
    row.pid = who->pid;
  }

  /// Rows of processes and threads. A device that Kineto shows as a process ("GPU 0") goes to metadata.
  void write(Writer& writer, RowSink& sink, const InputFacts& facts) const;

 private:
  struct Process {
    std::string name;                // text
    std::string labels, sort_index;  // JSON
    bool named = false;              // the pid itself was a text
  };
  Process* processOf(int64_t pid);

  TrackNames& names_;
  Losses& losses_;
  std::map<int64_t, Process> processes_;
  std::map<int64_t, Owner> owners_;
  std::map<std::pair<int64_t, int64_t>, std::string> threads_;
  // The last text looked up: neighbours mostly have the same.
  std::string last_process_, last_thread_;
  int64_t last_process_number_ = 0, last_thread_number_ = 0, last_thread_pid_ = 0;
};

}  // namespace tracesmith::trace
