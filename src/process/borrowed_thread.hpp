// One thread of another process, stopped, and made to run a few calls of ours on a stack of ours, so that it then goes
// on as if nothing had been.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "process/stopped.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

/// What the thread is to do: dlopen(library), dlsym(function), function(argument).
struct LibraryCall {
  std::string library, function;
  std::string argument;                                     ///< bytes; the function gets their address
  uint64_t dlopen = 0, dlsym = 0, dlerror = 0, getpid = 0;  ///< addresses in the process
  static constexpr size_t kMostArgument = 256 << 10;
};

struct LibraryAnswer {
  int64_t value = 0;         ///< of the function
  std::string loader_error;  ///< why it was not called; empty: it was
};

/// Traced by the thread that made it, which must make all calls. When that ends, however it ends, the thread is let go:
/// what it runs by then puts everything back by itself.
class BorrowedThread {
 public:
  /// Stops it. kBusy: it did not stop in time, or the process is stopped (SIGSTOP): end the tracing thread.
  static Result<std::unique_ptr<BorrowedThread>> stop(pid_t pid, pid_t tid, int64_t patience_ns);
  ~BorrowedThread();
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  /// Registers and stack, as it stands.
  const Snapshot& snapshot() const { return snapshot_; }

  /// It must stand where it holds no lock that the calls need. kTimeout: the calls had not returned in time; they go
  /// on, and so does the thread once they have. Anything else that fails leaves it as it was.
  Result<LibraryAnswer> call(const LibraryCall& call, int64_t patience_ns);

 private:
  struct State;
  BorrowedThread() = default;
  Status run(const LibraryCall& call, int64_t patience_ns, LibraryAnswer& answer);

  Snapshot snapshot_;
  std::unique_ptr<State> state_;
};

/// Whether call() works here; if not, why.
Status canBorrowThreads();

}  // namespace tracesmith::process
