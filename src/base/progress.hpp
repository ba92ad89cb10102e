// A progress bar on standard error: only on a terminal, and only for work that lasts longer than a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tracesmith {

/// Whether a file leads to a terminal that can go back in its line; TERM=dumb cannot.
bool drawsOn(int fd);

/// Not thread safe: call update() from one thread.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // wipes the line
  void update(uint64_t done, uint64_t total);

 private:
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace tracesmith
