// The fit of two clocks against simulated truth: offsets of seconds, drift, jitter, asymmetry, stalls, steps.
#include "sync/clock_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

namespace tracesmith::sync {
namespace {

/// Two clocks and a link between them.
struct World {
  int64_t offset_ns = 5'000'000'000;  // reference − ours at time 0
  double drift_ppm = 0;
  double delay_us = 100, jitter_us = 0, asymmetry_us = 0, stall_share = 0;
  std::mt19937_64 random{7};

  int64_t reference(int64_t ours) const {
    return ours + offset_ns + std::llround(static_cast<double>(ours) * drift_ppm / 1e6);
  }
  int64_t ours(int64_t reference_ns) const {
    return std::llround(static_cast<double>(reference_ns - offset_ns) / (1 + drift_ppm / 1e6));
  }
  int64_t delay(double more) {
    std::uniform_real_distribution<double> part(0, 1);
    double us = delay_us + more + jitter_us * part(random);
    if (part(random) < stall_share) us += 20000 * part(random);
    return static_cast<int64_t>(us * 1000);
  }
  Exchange exchange(int64_t t1) {
    Exchange e;
    e.t1 = t1;
    e.t2 = reference(t1 + delay(asymmetry_us));
    e.t3 = e.t2 + 2000;
    e.t4 = ours(e.t3) + delay(0);
    return e;
  }
  std::vector<Exchange> burst(int64_t t) {
    std::vector<Exchange> all;
    for (int i = 0; i < 8; ++i) all.push_back(exchange(i == 0 ? t : all.back().t4 + 10000));
    return all;
  }
  int64_t error(const ClockModel& m) const { return m.toReference(m.at_ns) - reference(m.at_ns); }
};

constexpr int64_t kS = 1'000'000'000;

/// A minute of bursts, a second apart. The bound must hold all the time.
int64_t errorAfterAMinute(World& world, ClockFit& fit) {
  int64_t last = 0;
  for (int64_t t = kS; t <= 60 * kS; t += kS) {
    fit.add(world.burst(t));
    for (int64_t ahead : {int64_t{100'000'000}, 5 * kS}) {  // just now, and after a pause
      const ClockModel m = fit.at(t + ahead);
      EXPECT_TRUE(m.valid());
      EXPECT_LE(std::abs(world.error(m)), m.bound_ns) << "at " << t / kS << " s";
    }
    last = std::abs(world.error(fit.at(t + 100'000'000)));
  }
  return last;
}

TEST(ClockFit, AQuietLinkIsGoodForMicroseconds) {
  for (double drift : {0.0, 100.0, -100.0, 37.5}) {
    World world{.drift_ppm = drift, .delay_us = 100, .jitter_us = 20};
    ClockFit fit;
    EXPECT_LE(errorAfterAMinute(world, fit), 10'000) << drift;
    EXPECT_NEAR(fit.at(60 * kS).drift_ppm, drift, 0.5);
    EXPECT_EQ(fit.faults(), 0u);
  }
}

TEST(ClockFit, OneBurstSaysNothingAboutTheRate) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world{.drift_ppm = 30, .jitter_us = 300, .random = std::mt19937_64(seed)};
    ClockFit fit;
    fit.add(world.burst(kS));
    const ClockModel m = fit.at(kS + 20'000'000);
    EXPECT_LE(std::abs(m.drift_ppm), 100) << "a second later it would be off by hundreds of microseconds";
    EXPECT_LE(std::abs(world.error(m)), m.bound_ns);
  }
}

TEST(ClockFit, JitterIsFilteredOut) {
  World world{.drift_ppm = 80, .delay_us = 500, .jitter_us = 1000};
  ClockFit fit;
  EXPECT_LE(errorAfterAMinute(world, fit), 100'000);
}

TEST(ClockFit, StallsDoNotMatter) {
  World world{.drift_ppm = -50, .delay_us = 200, .jitter_us = 100, .stall_share = 0.3};
  ClockFit fit;
  EXPECT_LE(errorAfterAMinute(world, fit), 20'000);
}

TEST(ClockFit, AsymmetryIsWithinTheBound) {
  World world{.drift_ppm = 10, .delay_us = 200, .jitter_us = 50, .asymmetry_us = 4000};
  ClockFit fit;
  EXPECT_NEAR(static_cast<double>(errorAfterAMinute(world, fit)), 2'000'000, 100'000) << "nobody can see asymmetry";
}

TEST(ClockFit, AStepIsNoticedAndForgotten) {
  World world{.drift_ppm = 20, .delay_us = 100, .jitter_us = 20};
  ClockFit fit;
  errorAfterAMinute(world, fit);
  for (int64_t step : {int64_t{-3'000'000'000}, int64_t{2'000'000}}) {
    world.offset_ns += step;
    EXPECT_FALSE(fit.add(world.burst(61 * kS + std::abs(step)))) << step;
    const ClockModel m = fit.at(61 * kS + std::abs(step));
    EXPECT_LE(std::abs(world.error(m)), m.bound_ns);
    EXPECT_LT(m.bound_ns, 200'000);
  }
  EXPECT_EQ(fit.faults(), 2u);
}

TEST(ClockFit, ThousandsOfExchangesTakeNoMoreRoom) {
  World world{.drift_ppm = 5, .delay_us = 100, .jitter_us = 50};
  ClockFit fit(100'000 * kS);
  for (int64_t t = kS; t < 1000 * kS; t += kS) fit.add(world.burst(t));
  EXPECT_LE(fit.exchanges(), 512u);
  const ClockModel m = fit.at(1000 * kS);
  EXPECT_LE(std::abs(world.error(m)), std::min<int64_t>(m.bound_ns, 20'000));
}

TEST(ClockFit, NothingKnownIsSaid) {
  EXPECT_FALSE(ClockFit().at(5).valid());
  EXPECT_TRUE(ClockFit().add(Exchange{10, 0, 0, 5})) << "an exchange that ended before it began is passed over";
}

TEST(ClockModel, GoesThereAndBack) {
  const ClockModel m{.at_ns = 1000, .offset_ns = 5'000'000'000, .drift_ppm = -123.4, .bound_ns = 1};
  for (int64_t t : {int64_t{0}, int64_t{1000}, 3600 * kS})
    EXPECT_NEAR(static_cast<double>(m.toRaw(m.toReference(t)) - t), 0, 1);
}

}  // namespace
}  // namespace tracesmith::sync
