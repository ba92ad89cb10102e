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

/// What a query gave, whole. A small one is in `body`, a larger one in `file`.
struct QueryResult {
  std::string body;
  File file;  ///< open for reading, without a name
  uint64_t rows = 0;
  bool truncated = false;  ///< there were more than max_rows
};

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

  /// Waits for the end of the query. A result is whole or a failure.
  Result<QueryResult> result();

 private:
  QueryProcess() = default;
  Status spawn(const Options& options, const query::WorkerOptions& worker);
  Status read(std::string& out, bool& more);
  Status end();
  Status timeout() const;
  void kill();

  TemporaryFolder spill_;
  int out_ = -1, err_ = -1, client_ = -1;
  pid_t pid_ = -1;  // -1: it was waited for
  double seconds_ = 0;
  std::chrono::steady_clock::time_point deadline_{};
  uint64_t bytes_ = 0;
  std::string said_;  // on its standard error, at its end
};

}  // namespace tracesmith::server
