// A process in a PID namespace of its own, as every container has.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

namespace tracesmith::test {

/// Runs `work` as process 1 of a new PID namespace. Killed when this goes away.
class NamespacedProcess {
 public:
  /// Returns once `work` has called the function it gets. No value: the machine does not allow it.
  static std::optional<NamespacedProcess> start(const std::function<void(const std::function<void()>& ready)>& work);
  NamespacedProcess(NamespacedProcess&& other) noexcept;
  ~NamespacedProcess();

  /// Its id outside.
  pid_t pid() const { return pid_; }
  /// Kills it and waits until it is gone.
  void kill();

 private:
  NamespacedProcess(pid_t parent, pid_t pid) : parent_(parent), pid_(pid) {}
  pid_t parent_, pid_;
};

}  // namespace tracesmith::test
