// Between the agent and the process there is a keeper: a fork of the agent that only waits for the process, and for the
// pipe from the agent. The kernel closes the pipe when the agent ends, even by SIGKILL, and then the keeper ends the
// process with its group. A fork of a program with threads may call little: no memory is allocated in it.
#include "cluster/agent/rank_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kControl = 3, kEnd = 4;  // of the keeper, whose other files are closed
constexpr int kBlindMs = 50;           // between two looks where the kernel cannot tell that a process has ended

int64_t nowMs() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
}

/// What is given to the fork; made before it.
struct Plan {
  const char* folder;
  char* const* argv;
  char* const* environment;
  const char* program;  // with its path
  int64_t grace_ms;
  int in, out, err, control, end;
};

/// Moves files to fixed numbers: first out of each other's way.
void place(int (&from)[2]) {
  for (int& fd : from) fd = ::fcntl(fd, F_DUPFD, 10);
  ::dup2(from[0], kControl);
  ::dup2(from[1], kEnd);
}

[[noreturn]] void becomeRank(const Plan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // of the keeper
  ::dup2(plan.in, STDIN_FILENO);
  ::dup2(plan.out, STDOUT_FILENO);
  ::dup2(plan.err, STDERR_FILENO);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int n = 1; n < NSIG; ++n) ::sigaction(n, &usual, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int error = 0;
  if (plan.folder && ::chdir(plan.folder) != 0) error = errno;
  if (error == 0) {
    ::fcntl(plan.end, F_SETFD, FD_CLOEXEC);
    ::syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    ::execve(plan.program, plan.argv, plan.environment);
    error = errno;
  }
  const RankProcess::End end{error, 0};
  (void)!::write(plan.end, &end, sizeof end);
  ::_exit(127);
}

/// What has left the group and lost its parent is a child of the keeper.
void killChildren() {
  for (int round = 0; round < 100; ++round) {
    char text[4096];
    const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? 0 : ::read(file, text, sizeof text - 1);
    if (file >= 0) ::close(file);
    if (size <= 0) return;
    pid_t child = 0;
    for (ssize_t i = 0; i < size; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        child = 10 * child + (text[i] - '0');
        continue;
      }
      if (child > 0) ::kill(child, SIGKILL);
      child = 0;
    }
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
}

[[noreturn]] void keep(const Plan& plan) {
  ::setpgid(0, 0);  // Ctrl-C at the agent's terminal is for the agent
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  for (int n : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::sigaction(n, &ignored, nullptr);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &usual, nullptr);
  ::prctl(PR_SET_NAME, "tracesmith-rank");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what its processes leave behind becomes ours
  const pid_t rank = ::fork();
  if (rank == 0) becomeRank(plan);
  const int error = errno;
  int files[2] = {plan.control, plan.end};
  place(files);
  if (::syscall(SYS_close_range, 5u, ~0u, 0u) != 0)
    for (int fd = 5; fd < 65536; ++fd) ::close(fd);  // a kernel before 5.9
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  RankProcess::End end{};
  if (rank < 0) {
    end.error = error;
    (void)!::write(kEnd, &end, sizeof end);
    ::_exit(1);
  }
  ::setpgid(rank, rank);
  const int seen = static_cast<int>(::syscall(SYS_pidfd_open, rank, 0));
  int64_t kill_at = -1;  // ms; -1: nobody wants it to end
  bool listening = true;
  for (;;) {
    if (::waitpid(rank, &end.status, WNOHANG) == rank) break;
    pollfd files_now[2] = {{listening ? kControl : -1, POLLIN, 0}, {seen, POLLIN, 0}};
    int wait_ms = seen < 0 ? kBlindMs : -1;
    if (kill_at >= 0) {
      const int64_t left = std::max<int64_t>(0, kill_at - nowMs());
      wait_ms = wait_ms < 0 ? static_cast<int>(left) : static_cast<int>(std::min<int64_t>(wait_ms, left));
    }
    ::poll(files_now, 2, wait_ms);
    if (listening && files_now[0].revents != 0) {
      listening = false;  // a word, or the end of the pipe: both say the same
      char word = 0;
      const bool now = ::read(kControl, &word, 1) == 1 && word == 'K';
      ::kill(-rank, now ? SIGKILL : SIGTERM);
      if (!now) ::kill(-rank, SIGCONT);
      kill_at = nowMs() + plan.grace_ms;
    }
    if (kill_at >= 0 && nowMs() >= kill_at) {
      ::kill(-rank, SIGKILL);
      kill_at = nowMs() + 1000;
    }
  }
  ::kill(-rank, SIGKILL);  // what it has left in its group
  killChildren();
  (void)!::write(kEnd, &end, sizeof end);
  ::_exit(0);
}

/// As the shell searches; as it is if there is none.
std::string programPath(const std::string& name, const std::map<std::string, std::string>& environment) {
  if (name.find('/') != std::string::npos) return name;
  const auto path = environment.find("PATH");
  const std::string all = path == environment.end() ? "/usr/local/bin:/usr/bin:/bin" : path->second;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(':', at), all.size());
    const std::string file = all.substr(at, end - at) + "/" + name;
    if (end > at && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return name;
}

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    for (int fd : ends)
      if (fd >= 0) ::close(fd);
  }
  bool open() { return ::pipe2(ends, O_CLOEXEC) == 0; }
  bool openBoth() { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0; }
  int take(int which) { return std::exchange(ends[which], -1); }
};

}  // namespace

Result<std::unique_ptr<RankProcess>> RankProcess::start(const Start& start) {
  Pipe out, err, end, control;
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || !out.open() || !err.open() || !end.open() || !control.openBoth()) {
    const int error = errno;
    if (in >= 0) ::close(in);
    return Status::io(std::string("cannot open a pipe: ") + std::strerror(error));
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : start.environment) variables.push_back(name + "=" + value);
  std::vector<char*> argv, environment;
  for (const std::string& word : start.command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  const std::string program = programPath(start.command[0], start.environment);
  const Plan plan{start.folder.empty() ? nullptr : start.folder.c_str(),
                  argv.data(),
                  environment.data(),
                  program.c_str(),
                  static_cast<int64_t>(start.grace_s * 1e3),
                  in,
                  out.ends[1],
                  err.ends[1],
                  control.ends[0],
                  end.ends[1]};
  sigset_t all, old;  // a handler of the agent's must not run in the fork
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &old);
  const pid_t keeper = ::fork();
  if (keeper == 0) keep(plan);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::close(in);
  if (keeper < 0) return Status::io(std::string("cannot fork: ") + std::strerror(error));
  std::unique_ptr<RankProcess> made(new RankProcess());
  made->keeper_ = keeper;
  made->out_ = out.take(0);
  made->err_ = err.take(0);
  made->end_ = end.take(0);
  made->control_ = control.take(1);
  for (int fd : {made->out_, made->err_, made->end_}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return made;
}

RankProcess::~RankProcess() {
  (void)::send(control_, "K", 1, MSG_NOSIGNAL);
  ::close(control_);
  for (int fd : {out_, err_, end_}) ::close(fd);
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool RankProcess::takeEnd(End& end) {
  const ssize_t n = ::read(end_, &end, sizeof end);
  if (n == static_cast<ssize_t>(sizeof end)) return true;
  if (n != 0) return false;
  end = {ECHILD, 0};  // somebody killed the keeper, and the process died with it
  return true;
}

void RankProcess::terminate() { (void)::send(control_, "T", 1, MSG_NOSIGNAL); }

}  // namespace tracesmith::cluster
