#include "capture/probe/watch_cost.hpp"

#include <time.h>

#include "capture/probe/nccl_events.hpp"

namespace tracesmith::probe {
namespace {

/// The last numbers. One thread adds, another reads.
template <uint32_t kMost>
class Last {
 public:
  void add(uint32_t value) {
    const uint32_t n = count_.load(std::memory_order_relaxed);
    values_[n % kMost].store(value, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);
  }
  void clear() { count_ = 0; }
  uint32_t size() const {
    const uint32_t n = count_.load(std::memory_order_acquire);
    return n < kMost ? n : kMost;
  }
  /// Of two in the middle the lower one: what the job does every hundredth step by itself is then not taken for ours.
  uint32_t median() const {
    uint32_t sorted[kMost];
    const uint32_t n = size();
    for (uint32_t i = 0; i < n; ++i) {  // by insertion: they are few
      const uint32_t v = values_[i].load(std::memory_order_relaxed);
      uint32_t at = i;
      for (; at > 0 && sorted[at - 1] > v; --at) sorted[at] = sorted[at - 1];
      sorted[at] = v;
    }
    return n == 0 ? 0 : sorted[(n - 1) / 2];
  }

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> values_[kMost];
};

constexpr uint32_t kMost = UINT32_MAX;
constexpr uint32_t kLeastWith = 4, kLeastWithout = 8;
Last<64> g_without;                     // µs
Last<16> g_opening, g_with, g_closing;  // millionths of a step without, as it was before the window
std::atomic<uint32_t> g_base_us{0};     // a step without; 0: not known
struct {
  uint64_t wall_ns, cpu_ns, events_ns;
} g_since;  // when the account of our own time begins

uint64_t cpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

void beginAccount() { g_since = {ring::nowNs(), cpuNs(), eventsNs()}; }

/// A part of the time that has passed.
double share(uint64_t ns) {
  const uint64_t now = ring::nowNs();
  return now <= g_since.wall_ns ? 0 : static_cast<double>(ns) / static_cast<double>(now - g_since.wall_ns);
}

/// How much longer a step takes, in steps. May be negative: all of it is noise then.
double extra(const Last<16>& steps) { return steps.size() == 0 ? 0 : steps.median() / 1e6 - 1; }

}  // namespace

void stepTook(StepKind kind, uint64_t duration_ns) {
  const uint64_t us = duration_ns / 1000;
  if (kind == StepKind::without) return g_without.add(us < kMost ? static_cast<uint32_t>(us) : kMost);
  const uint32_t base = g_base_us.load();
  if (base == 0) return;
  const double millionths = 1e3 * static_cast<double>(duration_ns) / base;
  auto& steps = kind == StepKind::with ? g_with : kind == StepKind::opening ? g_opening : g_closing;
  steps.add(millionths < kMost ? static_cast<uint32_t>(millionths) : kMost);
}

void startCost() {
  g_without.clear();
  for (auto* steps : {&g_opening, &g_with, &g_closing}) steps->clear();
  g_base_us = 0;
  beginAccount();
}

void costWindowOpens() { g_base_us = g_without.size() < kLeastWithout ? 0 : g_without.median(); }

void lookAtCost(RingWriter& r) {
  if (g_with.size() < kLeastWith) return;
  ring::RingHeader& h = r.header();
  double every = h.window_every.load();
  const double window = extra(g_opening) + h.window_steps.load() * extra(g_with) + extra(g_closing);
  double own = share(cpuNs() - g_since.cpu_ns), events = share(eventsNs() - g_since.events_ns);
  auto cost = [&] { return (window > 0 ? window / every : 0) + own + events; };
  r.write(encode(
      ring::CounterRecord{.name = r.intern("tracesmith: cost %"), .start = ring::nowNs(), .value = 100 * cost()}));
  const uint32_t budget = h.budget_ppm.load();
  const double before = every;
  if (budget != 0 && events * 1e6 > budget) {  // thinner windows would not help
    stopEvents();
    events = 0;
    note(r, "timing NCCL's operations by events costs more than the budget: it was stopped");
  }
  while (budget != 0 && cost() * 1e6 > budget && every * 2 <= ring::kMostEvery) {
    every *= 2;
    own /= 2;  // it is with the windows that our thread has work to do
  }
  if (every > before) {
    h.window_every = static_cast<uint32_t>(every);
    beginAccount();
  }
  const double ppm = cost() * 1e6;
  h.cost_ppm = ppm < 4e9 ? static_cast<uint32_t>(ppm) : 4'000'000'000u;
}

}  // namespace tracesmith::probe
