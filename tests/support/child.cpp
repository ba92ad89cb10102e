#include "support/child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace tracesmith::test {
namespace {

bool eventuallyWithin(std::chrono::seconds limit, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  return eventuallyWithin(std::chrono::seconds(30), condition);
}

Child::Child(const std::vector<std::string>& argv, const Environment& environment) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const std::string out = dir_ / "out", err = dir_ / "err";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
}

Child::~Child() {
  if (running()) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
}

bool Child::running() {
  if (!ended_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return !ended_;
}

void Child::signal(int number) const { ::kill(pid_, number); }
void Child::signalGroup(int number) const { ::kill(-pid_, number); }
std::string Child::out() const { return readFile(dir_ / "out"); }
std::string Child::err() const { return readFile(dir_ / "err"); }

Output Child::wait() {
  Output output;
  if (eventuallyWithin(std::chrono::seconds(60), [&] { return !running(); }))
    output.rc = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  output.out = out();
  output.err = err();
  return output;
}

Output runWith(const Environment& environment, const std::vector<std::string>& argv) {
  return Child(argv, environment).wait();
}

}  // namespace tracesmith::test
