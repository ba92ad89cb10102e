// Stacks of a running Python process: how long reading them takes, and how long its threads stand still for it. The
// baseline stops the whole process with SIGSTOP while it reads, as samplers do that pause their target. And what
// sampling costs: processor time of the sampler, and work that the process no longer does.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "measure.hpp"
#include "process/backtrace.hpp"
#include "process/groups.hpp"
#include "process/sampling.hpp"
#include "process/vitals.hpp"

namespace tracesmith::bench {
namespace {

/// Four threads, 30 frames deep, one of them busy. It says how much it has done.
constexpr const char* kProgram = R"(
import os, sys, threading
def wait(n): return wait(n - 1) if n else threading.Event().wait()
def busy(n):
    if n: return busy(n - 1)
    while True:
        for i in range(50000): abs(1)
        os.write(1, b'x')
for i in range(3): threading.Thread(target=wait, args=(25,), daemon=True).start()
busy(28)
)";

class Target {
 public:
  explicit Target(const std::string& python) {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::execlp(python.c_str(), python.c_str(), "-c", kProgram, nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char ready = 0;
    if (::read(ends[0], &ready, 1) != 1) {
      std::fprintf(stderr, "%s cannot be run\n", python.c_str());
      std::exit(1);
    }
    reader_ = std::thread([this, from = ends[0]] {
      char bytes[4096];
      for (ssize_t n = 0; (n = ::read(from, bytes, sizeof bytes)) > 0;) done_ += n;
      ::close(from);
    });
  }
  ~Target() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    reader_.join();
  }
  pid_t pid() const { return pid_; }
  int64_t done() const { return done_; }
  /// Processor time that reading what it says takes here, seconds.
  double readerSeconds() {
    clockid_t clock{};
    if (::pthread_getcpuclockid(reader_.native_handle(), &clock) != 0) return 0;
    return static_cast<double>(readClock(clock)) / 1e9;
  }

 private:
  pid_t pid_ = -1;
  std::atomic<int64_t> done_{0};
  std::thread reader_;
};

struct Spread {
  double median = 0, p99 = 0;
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() * 99 / 100]};
}

/// Milliseconds of each call.
std::vector<double> timed(int times, const std::function<void()>& work) {
  std::vector<double> out;
  for (int i = 0; i < times; ++i) {
    const int64_t begin = rawClock();
    work();
    out.push_back(static_cast<double>(rawClock() - begin) / 1e6);
  }
  return out;
}

void mustRead(const Result<process::Stacks>& stacks) {
  if (stacks) return;
  std::fprintf(stderr, "%s\n", stacks.status().message().c_str());
  std::exit(1);
}

/// How long the process's first thread has run, ns: what it does in this time does not depend on who else runs.
int64_t ranFor(const Target& target) {
  int64_t ns = 0;
  if (FILE* f = std::fopen(("/proc/" + std::to_string(target.pid()) + "/schedstat").c_str(), "r")) {
    long long first = 0;
    if (std::fscanf(f, "%lld", &first) == 1) ns = first;
    std::fclose(f);
  }
  return ns;
}

struct SamplingCost {
  double core_percent = 0, slower_percent = 0, error = 0, first_look_ms = 0;
  uint64_t looks = 0, missed = 0, threads_missed = 0;
};

/// Stretches with and without sampling in turn: what the process did in each while it had a processor.
SamplingCost samplingCost(Target& target, bool native, int rounds, double seconds) {
  SamplingCost cost;
  std::vector<double> ratios;
  double cpu = 0, wall = 0;
  const std::atomic<bool> never{false};
  process::Sampling once({.seconds = 0, .rate = 100, .native = native, .python_only = !native});
  if (!once.add(target.pid(), {}, "").ok() || !once.run(never, nullptr, [](double) {}).ok()) std::exit(1);
  cost.first_look_ms = once.cpuSeconds() * 1e3;  // which reads symbols and tables; not part of what a second costs
  for (int i = 0; i < rounds; ++i) {
    double speed[2];
    for (const bool with : {i % 2 == 0, i % 2 != 0}) {
      process::Sampling sampling({.seconds = seconds, .rate = 100, .native = native, .python_only = !native});
      const std::atomic<bool> stop{false};
      if (with && !sampling.add(target.pid(), {}, "").ok()) std::exit(1);
      const int64_t begin = ranFor(target), done = target.done();
      const double reader = target.readerSeconds();
      if (with)
        (void)sampling.run(stop, nullptr, [](double) {});
      else
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      speed[with] = static_cast<double>(target.done() - done) / static_cast<double>(ranFor(target) - begin);
      if (!with) continue;
      // Native frames are read by several threads, so the time is that of the process, with its other thread's.
      const double other = native ? target.readerSeconds() - reader : 0;
      cpu += std::max(0.0, sampling.cpuSeconds() - once.cpuSeconds() - other);
      wall += sampling.counts().seconds;
      cost.looks += sampling.counts().processes[0].looks;
      cost.missed += sampling.counts().processes[0].missed;
      cost.threads_missed += sampling.processes()[0].threads_missed;
    }
    ratios.push_back(speed[0] / speed[1]);
  }
  double mean = 0, square = 0;
  for (const double r : ratios) mean += r / static_cast<double>(ratios.size());
  for (const double r : ratios) square += (r - mean) * (r - mean);
  cost.core_percent = 100 * cpu / wall;
  cost.slower_percent = 100 * (mean - 1);
  if (ratios.size() > 1)
    cost.error = 200 * std::sqrt(square / static_cast<double>(ratios.size() - 1) / static_cast<double>(ratios.size()));
  return cost;
}

void print(const char* what, const SamplingCost& c) {
  std::printf("  %-34s %6.2f %% of a core; the process is slower by %.2f ± %.2f %%\n", what, c.core_percent,
              c.slower_percent, c.error);
  std::printf("    and %.1f ms of a processor for the first look\n", c.first_look_ms);
  std::printf("    %llu looks, %llu missed, %llu samples of threads missed; bar: 1 %% of a core: %s\n",
              static_cast<unsigned long long>(c.looks), static_cast<unsigned long long>(c.missed),
              static_cast<unsigned long long>(c.threads_missed), c.core_percent <= 1 ? "met" : "NOT met");
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) {
  using namespace tracesmith;
  using namespace tracesmith::bench;
  usage(argc, argv, "stacks_bench [--smoke] [--python PYTHON] [--times N] [--rounds N] [--json OUT]");
  const int times = std::stoi(option(argc, argv, "--times", flag(argc, argv, "--smoke") ? "10" : "500"));
  Target target(option(argc, argv, "--python", "python3"));

  size_t changed = 0;
  const Spread python = spread(timed(times, [&] {
    const Result<process::Stacks> s = process::backtrace(target.pid());
    mustRead(s);
    for (const process::ThreadStack& t : s->threads) changed += t.changed;
  }));
  std::vector<double> stops;
  const Spread native = spread(timed(times, [&] {
    const Result<process::Stacks> s = process::backtrace(target.pid(), {.native = true});
    mustRead(s);
    for (const process::ThreadStack& t : s->threads)
      if (t.stopped_ns) stops.push_back(static_cast<double>(*t.stopped_ns) / 1e3);
  }));
  const Spread paused = spread(timed(times, [&] {  // the whole process, for as long as it is read
    ::kill(target.pid(), SIGSTOP);
    for (char state = 0; state != 'T' && state != 't';)
      state = process::vitals("", target.pid()).value_or(process::Vitals{.state = 'T'}).state;
    mustRead(process::backtrace(target.pid()));
    ::kill(target.pid(), SIGCONT);
  }));
  std::printf("%d times a process of 4 threads, about 30 frames each, one busy; median (99th percentile):\n", times);
  std::printf("  Python frames, nothing stopped      %6.2f ms (%.2f ms); %zu stacks changed while they were read\n",
              python.median, python.p99, changed);
  std::printf("  Python and native frames            %6.2f ms (%.2f ms)\n", native.median, native.p99);
  if (!stops.empty()) {
    const Spread stop = spread(stops);
    std::printf("    each thread stopped for at most   %6.0f µs (%.0f µs)\n", stop.median, stop.p99);
    std::printf("    %.3f × the baseline; bar: 1 ms: %s\n", stop.median / 1e3 / paused.median,
                stop.p99 <= 1000 ? "met" : "NOT met");
  }
  std::printf("  baseline, the whole process stopped %6.2f ms (%.2f ms)\n", paused.median, paused.p99);
  std::printf("bar: 20 ms for a process: %s by the median, %s by the 99th percentile\n",
              native.median <= 20 ? "met" : "NOT met", native.p99 <= 20 ? "met" : "NOT met");
  const bool smoke = flag(argc, argv, "--smoke");
  const int rounds = std::stoi(option(argc, argv, "--rounds", smoke ? "1" : "20"));
  const double seconds = smoke ? 0.2 : 2;
  std::printf("sampled 100 times a second, %d times %.1f s with and without it in turn (mean ± twice its error):\n",
              rounds, seconds);
  const SamplingCost sampled = samplingCost(target, false, rounds, seconds);
  print("Python frames", sampled);
  const SamplingCost sampled_native = samplingCost(target, true, rounds, seconds);
  print("Python and native frames", sampled_native);
  if (const std::string out = option(argc, argv, "--json", ""); !out.empty()) {
    std::string json;
    JsonWriter w(json);
    w.beginObject()
        .field("python_ms", python.median)
        .field("native_ms", native.median)
        .field("paused_ms", paused.median)
        .field("sampled_core_percent", sampled.core_percent)
        .field("sampled_slower_percent", sampled.slower_percent)
        .field("sampled_native_core_percent", sampled_native.core_percent)
        .field("sampled_native_slower_percent", sampled_native.slower_percent);
    w.field("stopped_us", stops.empty() ? 0.0 : spread(stops).median).endObject();
    if (FILE* f = std::fopen(out.c_str(), "w")) {
      std::fprintf(f, "%s\n", json.c_str());
      std::fclose(f);
    }
  }
  return 0;
}
