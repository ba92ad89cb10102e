#include "cli/own_command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.hpp"
#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

constexpr size_t kMostSaid = 16'384;  // of its standard error
constexpr const char* kPrefix = "tracesmith: ";

/// What the command said when it failed: its last line that is no warning.
std::string sentence(const std::string& said) {
  std::string last;
  for (size_t from = 0; from < said.size();) {
    const size_t end = std::min(said.find('\n', from), said.size());
    std::string line = said.substr(from, end - from);
    from = end + 1;
    if (line.starts_with(kPrefix)) line.erase(0, std::strlen(kPrefix));
    if (!line.empty() && !line.starts_with("warning: ") && !line.starts_with("note: ")) last = std::move(line);
  }
  return last;
}

}  // namespace

Result<std::unique_ptr<OwnCommand>> OwnCommand::start(const std::vector<std::string>& words, const std::string& input,
                                                      const Limits& limits) {
  std::unique_ptr<OwnCommand> command(new OwnCommand());
  command->limits_ = limits;
  command->deadline_ = std::chrono::steady_clock::now() + limits.time;
  const int in = ::memfd_create("input", MFD_CLOEXEC);
  int out[2] = {-1, -1}, error[2] = {-1, -1};
  const bool ready = in >= 0 && ::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(error, O_CLOEXEC) == 0 &&
                     ::write(in, input.data(), input.size()) == static_cast<ssize_t>(input.size()) &&
                     ::lseek(in, 0, SEEK_SET) == 0;
  command->out_ = out[0];
  command->error_ = error[0];
  int failed = ready ? 0 : errno;
  if (ready) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    ::sigemptyset(&none);
    ::sigemptyset(&usual);
    ::sigaddset(&usual, SIGPIPE);
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, error[1], STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &usual);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> argv = {const_cast<char*>("tracesmith")};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    failed = ::posix_spawn(&command->pid_, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  for (int fd : {in, out[1], error[1]})
    if (fd >= 0) ::close(fd);
  if (failed != 0) {
    command->pid_ = -1;
    return Status::io(std::string("cannot start a process: ") + std::strerror(failed));
  }
  ::fcntl(command->out_, F_SETFL, O_NONBLOCK);
  ::fcntl(command->error_, F_SETFL, O_NONBLOCK);
  return command;
}

OwnCommand::~OwnCommand() {
  kill();
  for (int fd : {out_, error_})
    if (fd >= 0) ::close(fd);
}

void OwnCommand::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

/// Appends what can be read; false: too much.
bool OwnCommand::take(int& fd, std::string& text, bool end_at_limit) {
  char buffer[1 << 16];
  while (fd >= 0) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) {
      ::close(fd);
      fd = -1;
      return true;
    }
    text.append(buffer, static_cast<size_t>(n));
    if (end_at_limit && text.size() > limits_.output) return false;
    if (!end_at_limit && text.size() > kMostSaid) text.erase(0, text.size() - kMostSaid);
  }
  return true;
}

bool OwnCommand::proceed() {
  if (pid_ < 0) return true;
  if (!take(out_, text_, true))
    killed_ = Status::exhausted("the answer is larger than " + humanBytes(limits_.output) +
                                ": ask for fewer rows or columns, or for a summary");
  (void)take(error_, said_, false);
  if (killed_ && std::chrono::steady_clock::now() >= deadline_)
    killed_ = Status::timeout("it took longer than " + humanNs(static_cast<double>(limits_.time.count()) * 1e6));
  if (!killed_) {
    kill();
    return true;
  }
  if (out_ >= 0 || error_ >= 0) return false;
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  while (said_.ends_with('\n')) said_.pop_back();
  return true;
}

Result<std::string> OwnCommand::answer() const {
  if (!killed_) return killed_;
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return text_;
  if (WIFSIGNALED(status_) && WTERMSIG(status_) == SIGALRM) return Status::timeout("the query took too long");
  std::string said = sentence(said_);
  if (said.empty())
    said = "the command ended with " + (WIFSIGNALED(status_) ? "signal " + std::to_string(WTERMSIG(status_))
                                                             : "exit code " + std::to_string(WEXITSTATUS(status_)));
  return Status::unavailable(said);
}

}  // namespace tracesmith::cli
