// A command of `tracesmith` as a process of its own: it is limited in time and output, and what it does to itself it
// does not do to us.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cli {

/// One thread at a time. Killed with its process group at the end.
class OwnCommand {
 public:
  struct Limits {
    std::chrono::milliseconds time{120'000};
    size_t output = 100'000;  ///< bytes
  };
  /// `words`: what follows `tracesmith`; `input`: its standard input.
  static Result<std::unique_ptr<OwnCommand>> start(const std::vector<std::string>& words, const std::string& input,
                                                   const Limits& limits);
  ~OwnCommand();
  OwnCommand(const OwnCommand&) = delete;
  OwnCommand& operator=(const OwnCommand&) = delete;

  /// Where there is something to read; -1: that is closed.
  int out() const { return out_; }
  int error() const { return error_; }
  /// Until when it may run.
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  /// Reads what is there, without waiting. True: it has ended, or was killed for what it took.
  bool proceed();

  /// Once it has ended: what it printed, or one sentence why it failed.
  Result<std::string> answer() const;
  /// What it wrote on its standard error.
  const std::string& said() const { return said_; }

 private:
  OwnCommand() = default;
  bool take(int& fd, std::string& text, bool end_at_limit);
  void kill();

  Limits limits_;
  std::chrono::steady_clock::time_point deadline_;
  pid_t pid_ = -1;  // -1: it was waited for
  int out_ = -1, error_ = -1, status_ = 0;
  std::string text_, said_;
  Status killed_;
};

}  // namespace tracesmith::cli
