// The exchange with real datagrams through a relay that delays them, between clocks that are off by known amounts.
#include "sync/exchange.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.hpp"
#include "support/child.hpp"
#include "sync/relay.hpp"

namespace tracesmith::sync {
namespace {

using test::DatagramRelay;
using test::LinkRule;

constexpr uint64_t kKey = 0x1234;

/// Our clock is the raw one; the reference is it, moved.
struct Clocks {
  int64_t offset_ns = 3'000'000'000;
  double drift_ppm = 0;
  int64_t from = rawClock();
  int64_t reference(int64_t raw) const {
    return raw + offset_ns + std::llround(static_cast<double>(raw - from) * drift_ppm / 1e6);
  }
};

struct Measured {
  int64_t error_ns, bound_ns;
};

Measured measure(const Clocks& clocks, LinkRule there, LinkRule back, int bursts) {
  auto server = ExchangeServer::start("127.0.0.1", 0, kKey, [&] { return clocks.reference(rawClock()); });
  EXPECT_TRUE(server) << server.status().message();
  DatagramRelay relay((*server)->port(), there, back);
  auto client = ExchangeClient::connect("127.0.0.1", relay.port(), kKey, rawClock);
  EXPECT_TRUE(client) << client.status().message();
  ClockFit fit;
  Measured worst{0, 0};
  for (int i = 0; i < bursts; ++i) {
    fit.add((*client)->burst(8, 500));
    const ClockModel m = fit.at(rawClock());
    if (!m.valid()) continue;
    const int64_t error = std::abs(m.toReference(m.at_ns) - clocks.reference(m.at_ns));
    EXPECT_LE(error, m.bound_ns);
    worst = {error, m.bound_ns};
  }
  EXPECT_EQ(fit.faults(), 0u);
  return worst;
}

TEST(Exchange, FindsOffsetAndDrift) {
  const Measured m = measure({.drift_ppm = 100}, {.delay_us = 200}, {.delay_us = 200}, 20);
  EXPECT_GT(m.bound_ns, 0);
  EXPECT_LT(m.bound_ns, 5'000'000);
}

TEST(Exchange, TheBoundHoldsOnAnAsymmetricJitteringLink) {
  const Measured m = measure({.drift_ppm = -100}, {.delay_us = 2000, .jitter_us = 1000, .stall_share = 0.1},
                             {.delay_us = 200, .jitter_us = 500}, 10);
  EXPECT_GT(m.bound_ns, 500'000);
}

TEST(Exchange, OnlyWhoKnowsTheKeyIsAnswered) {
  auto server = ExchangeServer::start("127.0.0.1", 0, kKey, rawClock);
  ASSERT_TRUE(server);
  auto stranger = ExchangeClient::connect("127.0.0.1", (*server)->port(), kKey + 1, rawClock);
  ASSERT_TRUE(stranger);
  EXPECT_TRUE((*stranger)->burst(2, 50).empty());
  auto friendly = ExchangeClient::connect("127.0.0.1", (*server)->port(), kKey, rawClock);
  ASSERT_TRUE(friendly);
  EXPECT_TRUE(test::eventually([&] { return (*friendly)->burst(4, 200).size() == 4; }));
  EXPECT_GE((*server)->answered(), 4u);
}

TEST(Exchange, ACutLinkGivesNothingAndComesBack) {
  auto server = ExchangeServer::start("127.0.0.1", 0, kKey, rawClock);
  ASSERT_TRUE(server);
  DatagramRelay relay((*server)->port(), {}, {});
  auto client = ExchangeClient::connect("127.0.0.1", relay.port(), kKey, rawClock);
  ASSERT_TRUE(client);
  relay.cut = true;
  EXPECT_TRUE((*client)->burst(2, 50).empty());
  relay.cut = false;
  EXPECT_TRUE(test::eventually([&] { return !(*client)->burst(2, 200).empty(); }));
}

}  // namespace
}  // namespace tracesmith::sync
