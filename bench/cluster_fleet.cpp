// Starts the process of a fleet, and talks to it.
#include "cluster_fleet.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tracesmith::bench {

void giveUp(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

Fleet::Fleet(const FleetOptions& o) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) giveUp("cannot make a pipe");
  std::vector<std::string> argv{"cluster_bench",
                                "fleet",
                                std::to_string(o.first),
                                std::to_string(o.nodes),
                                std::to_string(o.ranks),
                                std::to_string(o.ring_records),
                                o.master,
                                o.folder,
                                std::to_string(o.tick_ms)};
  std::vector<char*> args;
  for (std::string& a : argv) args.push_back(a.data());
  args.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    ::execv("/proc/self/exe", args.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  to_ = to[1];
  from_ = from[0];
}

Fleet::~Fleet() {
  ::close(to_);
  ::close(from_);
  ::waitpid(pid_, nullptr, 0);
}

std::string Fleet::ask(const std::string& line) {
  if (!line.empty() && ::write(to_, (line + "\n").data(), line.size() + 1) < 0) giveUp("a fleet has ended");
  for (;;) {
    if (const size_t end = rest_.find('\n'); end != std::string::npos) {
      std::string answer = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return answer;
    }
    char buffer[4096];
    const ssize_t n = ::read(from_, buffer, sizeof buffer);
    if (n <= 0) giveUp("a fleet has ended");
    rest_.append(buffer, static_cast<size_t>(n));
  }
}

void Fleet::waitReady() { ask({}); }
void Fleet::rate(double per_second) { ask("rate " + std::to_string(per_second)); }
void Fleet::fill(uint64_t per_ring) { ask("fill " + std::to_string(per_ring)); }

Fleet::Written Fleet::stop() {
  std::istringstream words(ask("stop"));
  Written w;
  words >> w.lost >> w.late >> w.cpu_s >> w.job_cpu_s;
  for (uint64_t n = 0; words >> n;) w.events.push_back(n);
  return w;
}

}  // namespace tracesmith::bench
