// `run` as one of several tasks that a launcher started with the same command line: srun -n 8 tracesmith run -o job.sbt
// … Each task records a part, in a folder beside the output, and the one that ends last joins them to one trace. They
// need not communicate; a folder that all nodes see is enough.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// What a launcher says about its tasks.
struct Tasks {
  std::string id;  ///< of this start of these tasks, on all nodes
  int64_t task = 0, tasks = 0;
  bool first_on_node = false;
};

/// Nothing: this process is the only one, or nobody says so.
std::optional<Tasks> tasksOfLauncher();

class TaskPart {
 public:
  /// Makes the part of this task. `output`: the trace that all tasks write together.
  static Result<TaskPart> create(const Tasks& tasks, const std::string& output);
  /// Whether tasks of the same start have made their parts already: then the output may be theirs.
  static bool begun(const Tasks& tasks, const std::string& output);

  /// Where to record.
  const std::string& path() const { return path_; }
  /// Call it now and then: it shows the other tasks that this one lives.
  void alive();
  /// The part is complete. Joins all parts if no other task still records; a line for the user says what was done, or
  /// is empty.
  Result<std::string> done();

 private:
  Result<std::string> join(const std::vector<std::string>& parts, bool all);

  Tasks tasks_;
  std::string output_, folder_, path_;
  int64_t touched_ns_ = 0;
};

/// The parts in a folder that no task has joined, or nothing if it has none.
std::vector<std::string> partsIn(const std::string& folder);

}  // namespace tracesmith::cli
