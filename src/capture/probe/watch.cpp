#include "capture/probe/watch.hpp"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tracesmith::probe {
namespace {

constexpr uint32_t kSteps = 2, kEvery = 100, kMostEvery = 1u << 20;
constexpr uint64_t kPeriodNs = 60'000'000'000;  // of windows by time
constexpr int64_t kNoStep = INT64_MIN;

std::atomic<int64_t> g_step{kNoStep};  // the last one that began
std::atomic<uint32_t> g_wake{0};
std::atomic<uint32_t> g_changes{0};       // of GPU records; odd: they are on
std::atomic<uint32_t> g_step_changes{0};  // when the step began
uint64_t g_period_ns = kPeriodNs;

/// The last durations of steps, in µs. One thread adds, another reads.
class Durations {
 public:
  static constexpr uint32_t kMost = 64;
  void add(uint64_t ns) {
    const uint32_t n = count_.load(std::memory_order_relaxed);
    us_[n % kMost].store(static_cast<uint32_t>(ns / 1000), std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  uint32_t size() const {
    const uint32_t n = count_.load(std::memory_order_acquire);
    return n < kMost ? n : kMost;
  }
  double median() const {
    uint32_t sorted[kMost];
    const uint32_t n = size();
    for (uint32_t i = 0; i < n; ++i) {  // by insertion: they are few
      const uint32_t v = us_[i].load(std::memory_order_relaxed);
      uint32_t at = i;
      for (; at > 0 && sorted[at - 1] > v; --at) sorted[at] = sorted[at - 1];
      sorted[at] = v;
    }
    return n == 0 ? 0 : (static_cast<double>(sorted[(n - 1) / 2]) + sorted[n / 2]) / 2;
  }

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> us_[kMost];
};
Durations g_inside, g_outside;

bool stepInWindow(const RingWriter& r, int64_t step) {
  const int64_t steps = r.header().window_steps.load(std::memory_order_relaxed);
  const int64_t every = r.header().window_every.load(std::memory_order_relaxed);
  if (steps >= every) return true;
  const int64_t at = ((step % every) + every) % every;
  return at < steps || (at == every - 1 && steps + 1 < every);  // opens a step early: so that its steps are whole
}

bool timeInWindow(const RingWriter& r) {
  const uint64_t steps = r.header().window_steps.load(std::memory_order_relaxed);
  const uint64_t every = r.header().window_every.load(std::memory_order_relaxed);
  return steps >= every || ring::nowNs() % g_period_ns < g_period_ns / every * steps;
}

void wake() {
  g_wake.fetch_add(1);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&g_wake), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// CPU time of the calling thread, as a part of the time that has passed since it first asked.
double ownShare() {
  static uint64_t first = 0, used_first = 0;
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  const uint64_t used = static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  const uint64_t now = ring::nowNs();
  if (first == 0) {
    first = now;
    used_first = used;
  }
  return now == first ? 0 : static_cast<double>(used - used_first) / static_cast<double>(now - first);
}

/// What a step takes longer where it is recorded, for the part of the steps that are, and our thread's CPU time.
void lookAtCost(RingWriter& r) {
  constexpr uint32_t kLeastInside = 4, kLeastOutside = 8;
  if (g_inside.size() < kLeastInside || g_outside.size() < kLeastOutside) return;
  ring::RingHeader& h = r.header();
  const double outside = g_outside.median(), inside = g_inside.median();
  const double every = h.window_every.load(), recorded = h.window_steps.load() + 1;
  if (outside <= 0 || every <= 0) return;
  double cost = (inside / outside - 1) * (recorded < every ? recorded / every : 1);
  cost = (cost > 0 ? cost : 0) + ownShare();
  const double ppm = cost * 1e6;
  h.cost_ppm = ppm < 4e9 ? static_cast<uint32_t>(ppm) : 4'000'000'000u;
  r.write(
      encode(ring::CounterRecord{.name = r.intern("tracesmith: cost %"), .start = ring::nowNs(), .value = 100 * cost}));
  if (const uint32_t budget = h.budget_ppm.load(); budget != 0 && ppm > budget && every * 2 <= kMostEvery)
    h.window_every = static_cast<uint32_t>(every) * 2;
}

}  // namespace

void readWindow(RingWriter& r) {
  ring::RingHeader& h = r.header();
  h.window_steps = kSteps;
  h.window_every = kEvery;
  h.cost_ppm = ring::kNoCost;
  if (const char* window = getenv("TRACESMITH_WINDOW")) {
    char* end = nullptr;
    const long steps = strtol(window, &end, 10);
    const long every = *end == '/' ? strtol(end + 1, nullptr, 10) : 0;
    if (steps > 0 && every > 0 && every <= static_cast<long>(kMostEvery)) {
      h.window_steps = static_cast<uint32_t>(steps);
      h.window_every = static_cast<uint32_t>(every);
    }
  }
  if (const char* budget = getenv("TRACESMITH_BUDGET_PPM"); budget && atoi(budget) > 0)
    h.budget_ppm = static_cast<uint32_t>(atoi(budget));
  if (const char* period = getenv("TRACESMITH_WINDOW_PERIOD_MS"); period && atoi(period) > 0)
    g_period_ns = static_cast<uint64_t>(atoi(period)) * 1'000'000;
}

void watchStepBegin(RingWriter& r, int64_t step) {
  if (mode(r) != Mode::watch) return;
  const int64_t before = g_step.exchange(step);
  g_step_changes = g_changes.load();
  if (before == kNoStep || stepInWindow(r, before) != stepInWindow(r, step)) wake();
}

void watchStepEnd(RingWriter& r, uint64_t duration_ns) {
  const uint32_t changes = g_changes.load();
  if (mode(r) != Mode::watch || changes != g_step_changes.load()) return;  // partly recorded
  (changes % 2 ? g_inside : g_outside).add(duration_ns);
}

bool inWindow(RingWriter& r) {
  if (mode(r) != Mode::watch) return true;
  const int64_t step = g_step.load();
  return step == kNoStep ? timeInWindow(r) : stepInWindow(r, step);
}

uint32_t wakeCount() { return g_wake.load(); }

void sleepUnlessWoken(uint32_t count, long ns) {
  const timespec pause{0, ns};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&g_wake), FUTEX_WAIT_PRIVATE, count, &pause, nullptr, 0);
}

void windowChanged(RingWriter& r, bool on) {
  const uint32_t changes = g_changes.load();
  if ((changes % 2 != 0) != on) g_changes = changes + 1;
  if (mode(r) == Mode::watch && !on) lookAtCost(r);
}

}  // namespace tracesmith::probe
