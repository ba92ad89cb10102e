#include "capture/probe/watch.hpp"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/probe/watch_cost.hpp"

namespace tracesmith::probe {
namespace {

constexpr uint32_t kSteps = 2, kEvery = 100;
constexpr uint64_t kPeriodNs = 60'000'000'000;  // of windows by time
constexpr int64_t kNoStep = INT64_MIN;

std::atomic<int64_t> g_step{kNoStep};  // the last one that began
std::atomic<uint32_t> g_wake{0};
std::atomic<uint32_t> g_changes{0};       // of GPU records; odd: they are on
std::atomic<uint32_t> g_step_changes{0};  // when the step began
std::atomic<bool> g_closed{false};        // a window, and nobody has looked at its cost
uint64_t g_period_ns = kPeriodNs;

bool watched(const RingWriter& r, int64_t step) {
  return stepInWindow(step, r.header().window_steps.load(std::memory_order_relaxed),
                      r.header().window_every.load(std::memory_order_relaxed));
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
    if (steps > 0 && every > 0 && every <= static_cast<long>(ring::kMostEvery)) {
      h.window_steps = static_cast<uint32_t>(steps);
      h.window_every = static_cast<uint32_t>(every);
    }
  }
  if (const char* budget = getenv("TRACESMITH_BUDGET_PPM"); budget && atoi(budget) > 0)
    h.budget_ppm = static_cast<uint32_t>(atoi(budget));
  h.window_asked = h.window_every.load();
  if (const char* period = getenv("TRACESMITH_WINDOW_PERIOD_MS"); period && atoi(period) > 0)
    g_period_ns = static_cast<uint64_t>(atoi(period)) * 1'000'000;
}

void watchStepBegin(RingWriter& r, int64_t step) {
  if (mode(r) != Mode::watch) return;
  const int64_t before = g_step.exchange(step);
  g_step_changes = g_changes.load();
  if (before == kNoStep || watched(r, before) != watched(r, step)) wake();
}

void watchStepEnd(RingWriter& r, uint64_t duration_ns) {
  const uint32_t changes = g_changes.load(), before = g_step_changes.load();
  if (mode(r) != Mode::watch || changes - before > 1) return;
  const bool on = changes % 2 != 0;
  if (changes == before)
    stepTook(on ? StepKind::with : StepKind::without, duration_ns);
  else
    stepTook(on ? StepKind::opening : StepKind::closing, duration_ns);
}

bool inWindow(RingWriter& r) {
  if (mode(r) != Mode::watch) return true;
  const int64_t step = g_step.load();
  return step == kNoStep ? timeInWindow(r) : watched(r, step);
}

uint32_t wakeCount() { return g_wake.load(); }

void sleepUnlessWoken(uint32_t count, long ns) {
  const timespec pause{0, ns};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&g_wake), FUTEX_WAIT_PRIVATE, count, &pause, nullptr, 0);
}

void windowChanged(RingWriter& r, bool on) {
  const uint32_t changes = g_changes.load();
  if ((changes % 2 != 0) == on) return;
  if (on) costWindowOpens();
  g_changes = changes + 1;
  if (!on && mode(r) == Mode::watch) g_closed = true;
}

void windowFetched(RingWriter& r) {
  if (g_closed.exchange(false)) lookAtCost(r);
}

}  // namespace tracesmith::probe
