// Blame that is handed on: a rank that was late because it had waited for another; links the proxy saw.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

/// Ranks in tensor groups of two (0,1), (2,3), … and data groups (0,2,4,…), (1,3,5,…). Every step: compute, meet in the
/// tensor group, compute, meet in the data group.
class Grid {
 public:
  explicit Grid(const std::string& path) : writer_(std::move(*Writer::create(path))), out_(writer_->appender()) {}

  void run(int ranks, int steps, int slow_rank, double factor) {
    std::vector<int64_t> now(static_cast<size_t>(ranks), 1'000'000);
    for (int step = 0; step < steps; ++step) {
      const std::vector<int64_t> begin = now;
      for (int r = 0; r < ranks; ++r) compute(r, now[at(r)], r == slow_rank ? factor : 1, step);
      for (int r = 0; r < ranks; r += 2) meet({r, r + 1}, "tp" + std::to_string(r / 2), step, now);
      for (int r = 0; r < ranks; ++r) compute(r, now[at(r)], r == slow_rank ? factor : 1, step);
      for (int first = 0; first < 2; ++first) {
        std::vector<int> group;
        for (int r = first; r < ranks; r += 2) group.push_back(r);
        meet(group, "dp" + std::to_string(first), step, now);
      }
      for (int r = 0; r < ranks; ++r) {
        StepRow s;
        s.ts = begin[at(r)];
        s.dur = now[at(r)] - s.ts;
        s.rank = r;
        s.node = writer_->string("node0");
        s.step = step;
        EXPECT_TRUE(out_->append(s));
      }
    }
  }

  void proxy(int rank, int peer, int64_t ts, int64_t dur, int64_t gpu_wait, int64_t net_wait = kNull, int channel = 0,
             const char* comm = nullptr) {
    ProxyOpRow p;
    p.ts = ts;
    p.dur = dur;
    p.rank = rank;
    p.peer = peer;
    p.node = writer_->string("node0");
    p.direction = writer_->string("send");
    p.bytes = 1 << 20;
    p.gpu_wait = gpu_wait;
    p.net_wait = net_wait;
    p.channel = channel;
    if (comm) p.comm = writer_->string(comm);
    EXPECT_TRUE(out_->append(p));
  }

  void close() {
    EXPECT_TRUE(out_->flush());
    out_.reset();
    EXPECT_TRUE(writer_->close());
  }

 private:
  static size_t at(int rank) { return static_cast<size_t>(rank); }

  void kernel(int rank, int64_t from, int64_t to, const std::string& name, int64_t stream, int step) {
    EventRow launch, e;
    launch.ts = from - 5000;
    launch.dur = 2000;
    launch.type = static_cast<int64_t>(EventType::runtime);
    launch.name = writer_->string("cudaLaunchKernel");
    launch.rank = rank;
    launch.correlation = ++correlation_;
    EXPECT_TRUE(out_->append(launch));
    e.ts = from;
    e.dur = to - from;
    e.type = static_cast<int64_t>(EventType::kernel);
    e.name = writer_->string(name);
    e.rank = rank;
    e.node = writer_->string("node0");
    e.correlation = correlation_;
    e.stream = stream;
    e.device = rank;
    e.step = step;
    EXPECT_TRUE(out_->append(e));
  }

  void compute(int rank, int64_t& now, double factor, int step) {
    for (int k = 0; k < 10; ++k) {
      const auto dur = static_cast<int64_t>(40'000 * factor) + (rank * 37 + step * 11 + k * 5) % 200;
      kernel(rank, now + 1000, now + 1000 + dur, "gemm" + std::to_string(k), 7, step);
      now += 1000 + dur;
    }
  }

  void meet(const std::vector<int>& group, const std::string& comm, int step, std::vector<int64_t>& now) {
    int64_t last = 0;
    for (int r : group) last = std::max(last, now[at(r)] + 1000);
    for (int r : group) {
      CollectiveRow c;
      c.ts = now[at(r)] + 1000;
      c.dur = last + 30'000 - c.ts;
      kernel(r, c.ts, last + 30'000, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, step);
      c.correlation = correlation_;
      c.op = writer_->string("all_reduce");
      c.comm = writer_->string(comm);
      c.seq = step;
      c.node = writer_->string("node0");
      c.rank = r;
      c.group_size = static_cast<int64_t>(group.size());
      c.bytes = 1 << 20;
      c.step = step;
      c.stream = 20;
      c.name = writer_->string("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
      EXPECT_TRUE(out_->append(c));
      now[at(r)] = last + 30'000;
    }
  }

  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Appender> out_;
  int64_t correlation_ = 0;
};

TEST(WalkBack, WhoWaitedHandsTheBlameOn) {
  test::TempDir dir;
  Grid grid(dir / "t.sbt");
  grid.run(8, 12, 1, 1.25);
  grid.close();
  auto reader = Reader::open(dir / "t.sbt");
  ASSERT_TRUE(reader);
  auto a = analyze(**reader);
  ASSERT_TRUE(a) << a.status().message();
  EXPECT_EQ(a->verdict.rank, 1) << a->verdict.text;
  int handed = 0;
  for (const CollectiveResult& c : a->collectives) {
    if (c.group != "dp0") continue;
    // Rank 0 comes last there, but only because it had to wait for rank 1 in tp0.
    EXPECT_EQ(c.culprit_rank, 0);
    EXPECT_EQ(c.root_rank, 1);
    ++handed;
  }
  EXPECT_EQ(handed, 12);
  for (const CollectiveResult& c : a->collectives) {
    if (c.group == "dp1" || c.group == "tp0") {
      EXPECT_EQ(c.root_rank, 1) << c.group;
    }
  }
  EXPECT_EQ(a->blame.at(0).rank, 1);
  const auto zero = std::find_if(a->blame.begin(), a->blame.end(), [](const Blame& b) { return b.rank == 0; });
  EXPECT_TRUE(zero == a->blame.end() || zero->cost_us < a->blame.at(0).cost_us / 100);
  ASSERT_TRUE(a->critical_path);
  EXPECT_NEAR(a->critical_path->replay_error_pct, 0, 1);
  // Without rank 1's quarter more: 2 × 10 × 10 µs of a step of about 1,082.
  EXPECT_NEAR(a->blame.at(0).saved_pct, 100 * 200.0 / 1082, 2.5);
}

TEST(WalkBack, TheProxysSendsNameTheSlowPair) {
  test::TempDir dir;
  Grid grid(dir / "t.sbt");
  grid.run(4, 12, -1, 1);
  for (int i = 0; i < 40; ++i)
    for (int r = 0; r < 4; ++r) {
      const bool slow = r == 2;
      const int64_t wait = (i * 7 + r) % 5 * 50'000;  // for the GPU: not the link's fault
      grid.proxy(r, (r + 1) % 4, 1'000'000 + i * 100'000, wait + (slow ? 60'000 : 50'000) + (i * 13 + r * 7) % 900,
                 wait);
    }
  grid.close();
  auto reader = Reader::open(dir / "t.sbt");
  ASSERT_TRUE(reader);
  auto a = analyze(**reader);
  ASSERT_TRUE(a) << a.status().message();
  EXPECT_EQ(a->verdict.kind, VerdictKind::link) << a->verdict.text;
  EXPECT_EQ(a->verdict.group, "2→3");
  const auto slow = std::find_if(a->links.begin(), a->links.end(), [](const LinkResult& l) { return l.significant; });
  ASSERT_NE(slow, a->links.end());
  EXPECT_NEAR(slow->slowdown, 1.2, 0.02);
}

TEST(WalkBack, ASlowLinkCostsWhatItsTransfersWereOnTheNetworkLonger) {
  test::TempDir dir;
  Grid grid(dir / "t.sbt");
  grid.run(2, 12, -1, 1);  // 30 µs of transfer for both, once a step
  for (int i = 0; i < 12; ++i)
    for (int r = 0; r < 4; ++r)
      for (int channel : {0, 1})  // side by side; what waits in the queue is nobody's fault
        grid.proxy(r, (r + 1) % 4, 1'000'000 + i * 850'000, 500'000 * (r + 1), 0, r == 0 ? 20'000 : 2000, channel,
                   "tp0");
  grid.close();
  auto reader = Reader::open(dir / "t.sbt");
  ASSERT_TRUE(reader);
  auto a = analyze(**reader);
  ASSERT_TRUE(a) << a.status().message();
  EXPECT_EQ(a->verdict.group, "0→1") << a->verdict.text;
  EXPECT_TRUE(a->verdict.text.starts_with("the link from rank 0 to rank 1")) << a->verdict.text;
  ASSERT_FALSE(a->links.empty());
  EXPECT_NEAR(a->links[0].slowdown, 10, 0.01);
  const double job_us = a->job_us;
  EXPECT_NEAR(a->links[0].saved_pct, 100 * 12 * 18 / job_us, 0.3) << "18 of 30 µs in each step";
}

}  // namespace
}  // namespace tracesmith::analysis
