#include "support/pid_namespace.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace tracesmith::test {

std::optional<NamespacedProcess> NamespacedProcess::start(
    const std::function<void(const std::function<void()>& ready)>& work) {
  int id[2], ready[2];
  if (::pipe(id) != 0 || ::pipe(ready) != 0) return {};
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      work([&] { (void)!::write(ready[1], "", 1); });
      for (;;) ::pause();
    }
    ::close(ready[1]);
    (void)!::write(id[1], &pid, sizeof pid);
    ::waitpid(pid, nullptr, 0);
    ::_exit(0);
  }
  ::close(id[1]);
  ::close(ready[1]);
  pid_t pid = 0;
  char byte;
  const bool good = ::read(id[0], &pid, sizeof pid) == sizeof pid && ::read(ready[0], &byte, 1) == 1;
  ::close(id[0]);
  ::close(ready[0]);
  if (good) return NamespacedProcess(parent, pid);
  if (pid > 0) ::kill(pid, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  return {};
}

NamespacedProcess::NamespacedProcess(NamespacedProcess&& other) noexcept
    : parent_(std::exchange(other.parent_, 0)), pid_(other.pid_) {}

NamespacedProcess::~NamespacedProcess() { kill(); }

void NamespacedProcess::kill() {
  if (parent_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(parent_, nullptr, 0);
  parent_ = 0;
}

}  // namespace tracesmith::test
