// A query of a client, in a process of its own: whatever it does, the server goes on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/file.hpp"
#include "base/temporary_folder.hpp"
#include "query/worker.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::server {

/// One thread at a time; the one that starts it lives as long as it. Killed and cleaned up at the end.
class QueryProcess {
 public:
  struct Options {
    std::string program;  ///< `tracesmith`
    std::string trace, sql, format;
    uint64_t max_rows = 0;
    double seconds = 0;
    std::string folder;  ///< where its spill folder is made; empty: TMPDIR
    int client = -1;     ///< a socket: if its other side is gone, so is the query; -1: none
  };
  static Result<std::unique_ptr<QueryProcess>> start(const Options& options);
  ~QueryProcess();
  QueryProcess(const QueryProcess&) = delete;
  QueryProcess& operator=(const QueryProcess&) = delete;

  /// Appends the next bytes of the result to `out`; false in `more` when it was whole. A failure ends the query.
  Status read(std::string& out, bool& more);

 private:
  QueryProcess() = default;
  Status spawn(const Options& options, const query::WorkerOptions& worker);
  Status end();
  Status timeout() const;
  void kill();

  TemporaryFolder spill_;
  int out_ = -1, err_ = -1, client_ = -1;
  pid_t pid_ = -1;  // -1: it was waited for
  double seconds_ = 0;
  std::chrono::steady_clock::time_point deadline_{};
  uint64_t bytes_ = 0;
};

}  // namespace tracesmith::server
