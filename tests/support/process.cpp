#include "support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tracesmith::test {

Output run(const std::vector<std::string>& argv, const std::string& input) {
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) || ::pipe2(out, O_CLOEXEC) || ::pipe2(err, O_CLOEXEC)) throw std::runtime_error("pipe");
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  ::signal(SIGPIPE, SIG_IGN);
  ::fcntl(in[1], F_SETFL, O_NONBLOCK);  // a program that answers while it is being fed must be read meanwhile
  Output result;
  size_t written = 0;
  if (input.empty()) ::close(in[1]);
  bool in_open = !input.empty(), out_open = true, err_open = true;
  while (out_open || err_open) {
    pollfd fds[3] = {
        {out_open ? out[0] : -1, POLLIN, 0}, {err_open ? err[0] : -1, POLLIN, 0}, {in_open ? in[1] : -1, POLLOUT, 0}};
    ::poll(fds, 3, -1);
    char buffer[65536];
    auto drain = [&](int fd, std::string& to, bool& open) {
      ssize_t n = ::read(fd, buffer, sizeof buffer);
      if (n <= 0)
        open = false;
      else
        to.append(buffer, static_cast<size_t>(n));
    };
    if (fds[0].revents) drain(out[0], result.out, out_open);
    if (fds[1].revents) drain(err[0], result.err, err_open);
    if (fds[2].revents) {
      ssize_t n = ::write(in[1], input.data() + written, input.size() - written);
      if (n > 0) written += static_cast<size_t>(n);
      if ((n <= 0 && errno != EAGAIN) || written == input.size()) {
        ::close(in[1]);
        in_open = false;
      }
    }
  }
  if (in_open) ::close(in[1]);
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.rc = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

Output tracesmith(std::vector<std::string> args, const std::string& input) {
  args.insert(args.begin(), TRACESMITH_BIN);
  return run(args, input);
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tracesmith-test-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string readFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void writeFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

bool exists(const std::string& path) { return std::filesystem::exists(path); }

std::string sharedDir() {
  std::string dir = std::string(TRACESMITH_SOURCE_DIR) + "/../shared";
  return exists(dir + "/traces") ? dir : "";
}

}  // namespace tracesmith::test
