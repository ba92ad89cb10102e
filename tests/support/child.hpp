// A process that a test starts, watches while it runs, sends signals to, and waits for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/process.hpp"

namespace tracesmith::test {

/// Waits until the condition holds; false when it did not within half a minute.
bool eventually(const std::function<bool()>& condition);

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Killed with its group if the test leaves it running.
class Child {
 public:
  /// Starts argv[0] in a process group of its own, with these variables added. Its standard input is empty.
  explicit Child(const std::vector<std::string>& argv, const Environment& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  void signal(int number) const;
  void signalGroup(int number) const;
  /// What it has printed so far.
  std::string out() const;
  std::string err() const;
  /// Waits for its end. rc as of run(); -1 when it did not end within a minute.
  Output wait();

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Starts it and waits for it.
Output runWith(const Environment& environment, const std::vector<std::string>& argv);

}  // namespace tracesmith::test
