// Processes of the product, as cluster_bench starts and watches them.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::bench {

/// CPU seconds of a process so far.
inline double cpuOf(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  std::istringstream words(text.substr(text.rfind(')') + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) words >> skip;
  double user = 0, system = 0;
  words >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Process {
 public:
  /// A command of the product, or another program.
  explicit Process(std::vector<std::string> argv, bool product = true) {
    if (product) argv.insert(argv.begin(), TRACESMITH_BIN);
    std::vector<char*> args;
    for (std::string& a : argv) args.push_back(a.data());
    args.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::dup2(::open("/dev/null", O_WRONLY), 2);
      ::execv(args[0], args.data());
      ::_exit(127);
    }
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  double cpu() const { return cpuOf(pid_); }
  /// Resident; of a line of /proc/PID/status.
  double memoryMb(const char* which = "VmRSS:") const {
    std::ifstream in("/proc/" + std::to_string(pid_) + "/status");
    std::string key;
    double kb = 0;
    while (in >> key)
      if (key == which) in >> kb;
    return kb / 1024;
  }

 private:
  pid_t pid_ = -1;
};

inline uint16_t freePort() {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  ::bind(fd, reinterpret_cast<sockaddr*>(&a), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size);
  ::close(fd);
  return ntohs(a.sin_port);
}

[[noreturn]] inline void give_up(const Status& s) {
  std::fprintf(stderr, "%s\n", s.message().c_str());
  std::exit(1);
}

inline cluster::ClusterStatus statusWhen(cluster::Client& client,
                                         const std::function<bool(const cluster::ClusterStatus&)>& good) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (;;) {
    Result<cluster::ClusterStatus> s = client.status();
    if (s && good(*s)) return *s;
    if (std::chrono::steady_clock::now() > deadline) give_up(Status::io("the cluster does not get there"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace tracesmith::bench
