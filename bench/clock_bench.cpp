// How far off our clock exchange is, against injected offsets and drifts, through a relay that delays real datagrams.
// All links at once, each with its own clocks and relay: bursts of 8 exchanges as an agent makes them (fast until 128,
// then one a second). Printed: true error at the end, the largest after half of the time, and the bound printed then. A
// bound that does not hold fails the benchmark. Bars: ≤ 10 µs on a quiet link, ≤ 100 µs at 1 ms ± 0.5 ms.
// With `many`, how many nodes one server keeps on time: so many clients, each with its own socket, a burst of 8
// exchanges a second each, as agents make them; the server's CPU, and the error of one more client on its own clock
// meanwhile. Then as many exchanges as two threads can ask for. Then what collectives make of clocks that are known
// that badly, between 8 nodes. Bar: ≤ 5 µs.
#include <signal.h>
#include <sys/prctl.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "../tests/analysis/clock_job.hpp"
#include "../tests/sync/relay.hpp"
#include "base/clock.hpp"
#include "cluster_process.hpp"
#include "measure.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::bench {
namespace {

using namespace sync;
using test::LinkRule;

struct Link {
  const char* name;
  LinkRule there, back;
  double drift_ppm;
  int64_t step_ns = 0;  // the reference is set by this in the middle
  // measured
  int64_t error = 0, largest = 0, bound = 0;
  uint64_t faults = 0, broken = 0;
};

void run(Link& link, double seconds) {
  const int64_t from = rawClock(), middle = from + static_cast<int64_t>(seconds * 0.5e9);
  auto reference = [&](int64_t raw) {
    return raw + 3'000'000'000 + std::llround(static_cast<double>(raw - from) * link.drift_ppm / 1e6) +
           (raw >= middle ? link.step_ns : 0);
  };
  auto server = ExchangeServer::start("127.0.0.1", 0, 1, [&] { return reference(rawClock()); });
  if (!server) return;
  test::DatagramRelay relay((*server)->port(), link.there, link.back);
  auto client = ExchangeClient::connect("127.0.0.1", relay.port(), 1, rawClock);
  if (!client) return;
  ClockFit fit;
  while (rawClock() - from < static_cast<int64_t>(seconds * 1e9)) {
    fit.add((*client)->burst(8, 500));
    const ClockModel m = fit.at(rawClock());
    if (m.valid()) {
      link.error = std::abs(m.toReference(m.at_ns) - reference(m.at_ns));
      link.bound = m.bound_ns;
      link.broken += link.error > m.bound_ns;
      if (m.at_ns > from + static_cast<int64_t>(seconds * 0.6e9)) link.largest = std::max(link.largest, link.error);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(fit.exchanges() < 128 ? 100 : 1000));
  }
  link.faults = fit.faults();
}

/// Bounds broken.
uint64_t refine(double seconds) {
  std::printf("\n%-38s %10s %12s %14s %12s\n", "with collectives, 8 nodes", "", "error µs", "was µs", "bound µs");
  uint64_t broken = 0;
  for (const int64_t bound_us : {50, 200, 1000, 5000})
    for (const int64_t transfer_us : {20, 200, 2000}) {
      test::MadeClockJob job = test::makeClockJob({.nodes = 8,
                                                   .collectives = static_cast<int>(seconds * 40),
                                                   .seconds = seconds,
                                                   .bound_ns = bound_us * 1000,
                                                   .transfer_ns = transfer_us * 1000});
      const double before = test::clockErrors(job, job.given, "node0").worst;
      const analysis::Refinement r = refineClocks(job.table, job.given);
      const test::ClockErrors after = test::clockErrors(job, job.given, r.used ? r.reference : "node0");
      const std::string name =
          "clocks ± " + std::to_string(bound_us) + " µs, transfer " + std::to_string(transfer_us) + " µs";
      std::printf("%-40s %10s %12.1f %14.1f %12.1f\n", name.c_str(), r.used ? "" : "not used", after.worst / 1e3,
                  before / 1e3, after.bound / 1e3);
      broken += r.used && after.broken > 0;
    }
  return broken;
}

/// A server in a process of its own, so that its CPU time can be told from that of its clients.
class ServerProcess {
 public:
  ServerProcess() {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto server = ExchangeServer::start("127.0.0.1", 0, 1, [] { return rawClock() + 3'000'000'000; });
      const uint16_t port = server ? (*server)->port() : 0;
      if (::write(ends[1], &port, sizeof port) != sizeof port) ::_exit(1);
      for (;;) ::pause();
    }
    if (::read(ends[0], &port_, sizeof port_) != sizeof port_ || port_ == 0) std::exit(1);
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~ServerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  uint16_t port() const { return port_; }
  double cpu() const { return cpuOf(pid_); }

 private:
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

/// Bursts of all clients, each once a second; with `nodes` 0 one client as fast as it gets answers.
uint64_t askMany(uint16_t port, size_t nodes, double seconds) {
  std::vector<std::unique_ptr<ExchangeClient>> clients;
  for (size_t i = 0; i < std::max<size_t>(nodes, 1); ++i) {
    auto client = ExchangeClient::connect("127.0.0.1", port, 1, rawClock);
    if (!client) break;
    clients.push_back(std::move(*client));
  }
  uint64_t exchanges = 0;
  const int64_t from = rawClock(), until = from + static_cast<int64_t>(seconds * 1e9);
  for (size_t i = 0; rawClock() < until; ++i) {
    exchanges += clients[i % clients.size()]->burst(8, 200).size();
    if (nodes == 0) continue;
    const int64_t due = from + static_cast<int64_t>(static_cast<double>(i + 1) / static_cast<double>(nodes) * 1e9);
    if (const int64_t early = due - rawClock(); early > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(early));
  }
  return exchanges;
}

int many(int argc, char** argv) {
  const double seconds = std::stod(option(argc, argv, "--seconds", flag(argc, argv, "--smoke") ? "1" : "20"));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  uint64_t broken = 0;
  std::istringstream list(option(argc, argv, "--nodes", "0,512,5000"));
  for (std::string word; std::getline(list, word, ',');) {
    const size_t nodes = std::stoul(word);
    ServerProcess server;
    uint64_t asked = 0;
    std::thread others([&] {
      if (nodes > 0) asked = askMany(server.port(), nodes, seconds);
    });
    auto client = ExchangeClient::connect("127.0.0.1", server.port(), 1, rawClock);
    if (!client) return 1;
    ClockFit fit;
    int64_t largest = 0, bound = 0;
    const double cpu = server.cpu();
    const int64_t from = rawClock();
    for (int64_t end = from + static_cast<int64_t>(seconds * 1e9); rawClock() < end;) {
      fit.add((*client)->burst(8, 200));
      const ClockModel m = fit.at(rawClock());
      if (m.valid() && rawClock() - from > static_cast<int64_t>(seconds * 0.25e9)) {
        const int64_t error = std::abs(m.offset_ns - 3'000'000'000);
        largest = std::max(largest, error);
        bound = std::max(bound, m.bound_ns);
        broken += error > m.bound_ns;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(fit.exchanges() < 128 ? 100 : 1000));
    }
    others.join();
    const double wall = static_cast<double>(rawClock() - from) / 1e9;
    std::printf("%5zu nodes: %.0f exchanges/s answered, server %.3f of a core; largest error %.2f µs, bound %.2f µs\n",
                nodes, static_cast<double>(asked) / wall, (server.cpu() - cpu) / wall,
                static_cast<double>(largest) / 1e3, static_cast<double>(bound) / 1e3);
  }
  ServerProcess server;
  uint64_t answers[2] = {};
  const double cpu = server.cpu(), limit_s = std::min(seconds, 5.0);
  std::thread other([&] { answers[0] = askMany(server.port(), 0, limit_s); });
  answers[1] = askMany(server.port(), 0, limit_s);
  other.join();
  const double total = static_cast<double>(answers[0] + answers[1]), used = server.cpu() - cpu;
  std::printf("at most: %.0f exchanges/s of two clients, %.2f µs of the server's CPU each: %.0f/s a core\n",
              total / limit_s, used / total * 1e6, total / used);
  return broken ? 1 : 0;
}

int main(int argc, char** argv) {
  usage(argc, argv,
        "clock_bench [--smoke] [--seconds S]\n"
        "       clock_bench many [--nodes 512,5000] [--seconds S] [--smoke]");
  if (argc > 1 && std::string_view(argv[1]) == "many") return many(argc, argv);
  const double seconds = std::stod(option(argc, argv, "--seconds", flag(argc, argv, "--smoke") ? "2" : "60"));
  std::vector<Link> links = {
      {"loopback, no relay delay", {}, {}, 100},
      {"quiet, 0.2 ms", {200}, {200}, 100},
      {"quiet, 0.2 ms, step of 2 ms", {200}, {200}, -100, 2'000'000},
      {"0.2 ms + up to 0.1 ms", {200, 100}, {200, 100}, -100},
      {"1 ms ± 0.5 ms", {500, 1000}, {500, 1000}, 100},
      {"5 ms ± 1 ms", {4000, 2000}, {4000, 2000}, -50},
      {"0.2 ms, 10 % stall for 20 ms", {200, 50, 0.1}, {200, 50, 0.1}, 50},
      {"asymmetric, 2 ms there, 0.2 ms back", {2000, 100}, {200, 100}, 20},
  };
  std::vector<std::thread> threads;
  for (Link& link : links) threads.emplace_back([&] { run(link, seconds); });
  for (std::thread& t : threads) t.join();
  uint64_t broken = 0;
  std::printf("%-38s %10s %12s %14s %12s %7s\n", "link", "drift ppm", "error µs", "largest µs", "bound µs", "faults");
  for (const Link& l : links) {
    std::printf("%-38s %10.0f %12.1f %14.1f %12.1f %7llu\n", l.name, l.drift_ppm, static_cast<double>(l.error) / 1e3,
                static_cast<double>(l.largest) / 1e3, static_cast<double>(l.bound) / 1e3,
                static_cast<unsigned long long>(l.faults));
    broken += l.broken;
  }
  // The burst in which the clock is set mixes both: the fit of that moment may be off.
  const uint64_t refined_broken = refine(seconds);
  if (refined_broken)
    std::printf("refined bounds were broken %llu times\n", static_cast<unsigned long long>(refined_broken));
  if (broken > 1) std::printf("the bound was broken %llu times\n", static_cast<unsigned long long>(broken));
  return broken > 1 || refined_broken ? 1 : 0;
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) { return tracesmith::bench::main(argc, argv); }
