// Ctrl-C and the time limit of `tracesmith query`.
#pragma once

#include <atomic>
#include <thread>

#include "base/temporary_folder.hpp"
#include "query/engine.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// While it lives, SIGINT, SIGTERM and the end of the time interrupt the query. DuckDB looks for interrupts only
/// between pieces of its work: if the query still runs a second later, the program ends without it. One at a time.
class QueryWatch {
 public:
  struct Options {
    double seconds = 0;                ///< 0: no limit
    bool stay = false;                 ///< at a prompt: the program ends only at the second signal
    TemporaryFolder* spill = nullptr;  ///< removed before the program ends
  };
  QueryWatch(query::Engine& engine, const Options& options);
  ~QueryWatch();
  QueryWatch(const QueryWatch&) = delete;
  QueryWatch& operator=(const QueryWatch&) = delete;

  /// The last signal; 0: none.
  static int signalled();
  /// What the end of a query means that gave `status`.
  Status explain(const Status& status) const;

 private:
  void watch();
  [[noreturn]] void leave(int number);

  query::Engine& engine_;
  const Options options_;
  int wake_ = -1;  // an eventfd
  std::atomic<bool> done_{false}, late_{false};
  std::thread thread_;
};

}  // namespace tracesmith::cli
