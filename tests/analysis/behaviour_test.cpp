// Operations that nothing in the trace tells of but the behaviour of their kernels.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

constexpr int64_t kUs = 1000, kMs = 1'000'000;
constexpr int kRanks = 4, kSteps = 12;

/// Ranks of one node that compute, then run a kernel which ends when the last has come, then compute in lock step.
class Ranks {
 public:
  explicit Ranks(std::string exchange) : exchange_(std::move(exchange)) {}

  bool shared_node = true;   ///< else nothing says that the clocks are the same
  bool synchronises = true;  ///< else the kernel ends when its own work is done
  int late = 2;              ///< rank that computes longer; −1: nobody
  int groups = 1;            ///< ranks 0, 1, … of each exchange among themselves

  Analysis analyzed() {
    int64_t now = 0;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int64_t> ready;
      for (int r = 0; r < kRanks; ++r) {
        // Every other step is uneven on all ranks.
        const int64_t own = 2 * kMs + (step * 7 + r * 5) % 11 * 200 * kUs + (r == late ? 3 * kMs : 0);
        kernel(r, step, "gemm", now, own);
        ready.push_back(now + own + 2 * kUs);
      }
      int64_t after = 0;
      for (int r = 0; r < kRanks; ++r) {
        int64_t last = ready[static_cast<size_t>(r)];
        for (int o = 0; o < kRanks; ++o)
          if (o % groups == r % groups) last = std::max(last, ready[static_cast<size_t>(o)]);
        const int64_t begin = ready[static_cast<size_t>(r)];
        const int64_t end = (synchronises ? last : begin) + 200 * kUs + r * kUs;
        kernel(r, step, exchange_, begin, end - begin);
        after = std::max(after, end);
      }
      for (int r = 0; r < kRanks; ++r)  // begins and ends within the same bound, because all are in step
        kernel(r, step, "layer_norm", after + 5 * kUs + r * kUs, 300 * kUs + (step + r) % 3 * kUs);
      for (int r = 0; r < kRanks; ++r) stepRow(r, step, now, after + kMs - now);
      now = after + kMs;
    }
    return trace_.analyzed();
  }

 private:
  int64_t clock(int r) const { return shared_node ? 0 : r * 777 * kMs; }
  void kernel(int r, int step, const std::string& name, int64_t ts, int64_t dur) {
    trace::EventRow row;
    row.type = static_cast<int64_t>(trace::EventType::kernel);
    row.name = trace_.string(name);
    row.rank = r;
    row.pid = 100 + r;
    row.device = r;
    row.stream = 7;
    row.step = step;
    row.ts = 1'000'000 * kMs + ts + clock(r);
    row.dur = dur;
    if (shared_node) row.node = trace_.string("node0");
    trace_.add(row);
  }
  void stepRow(int r, int step, int64_t ts, int64_t dur) {
    trace::StepRow row;
    row.rank = r;
    row.pid = 100 + r;
    row.step = step;
    row.ts = 1'000'000 * kMs + ts + clock(r);
    row.dur = dur;
    if (shared_node) row.node = trace_.string("node0");
    trace_.add(row);
  }
  std::string exchange_;
  WrittenTrace trace_;
};

bool noted(const Analysis& a, const std::string& name) {
  for (const std::string& note : a.notes)
    if (note.find("by their behaviour: " + name) != note.npos && note.ends_with(name)) return true;
  return false;
}

TEST(Behaviour, AKernelThatEndsTogetherIsAnOperation) {
  for (const char* name : {"my_exchange_kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"}) {
    const Analysis a = Ranks(name).analyzed();
    EXPECT_TRUE(noted(a, name)) << name;
    ASSERT_EQ(a.collectives.size(), static_cast<size_t>(kSteps)) << name;
    for (const CollectiveResult& c : a.collectives) {
      EXPECT_EQ(c.ranks, kRanks);
      EXPECT_EQ(c.culprit_rank, 2);
      EXPECT_EQ(c.group, std::string("by behaviour: ") + name);
    }
    EXPECT_EQ(a.collectives.back().index, kSteps - 1);
    EXPECT_EQ(a.verdict.rank, 2) << a.verdict.text;
    EXPECT_EQ(a.incomplete + a.inconsistent + a.unmatched, 0u);
  }
}

TEST(Behaviour, NoCommonClockIsNeeded) {
  Ranks ranks("my_exchange_kernel");
  ranks.shared_node = false;
  const Analysis a = ranks.analyzed();
  EXPECT_TRUE(noted(a, "my_exchange_kernel"));
  ASSERT_EQ(a.collectives.size(), static_cast<size_t>(kSteps));
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.culprit_rank, 2);
}

TEST(Behaviour, GroupsAreToldApart) {
  Ranks ranks("my_exchange_kernel");
  ranks.groups = 2;
  const Analysis a = ranks.analyzed();
  EXPECT_TRUE(noted(a, "my_exchange_kernel"));
  ASSERT_EQ(a.collectives.size(), static_cast<size_t>(2 * kSteps));
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.ranks, 2);
}

TEST(Behaviour, EqualRanksInLockStepDoNotCommunicate) {
  Ranks ranks("attention");
  ranks.synchronises = false;
  ranks.late = -1;
  const Analysis a = ranks.analyzed();
  EXPECT_TRUE(a.collectives.empty());
  for (const std::string& note : a.notes) EXPECT_EQ(note.find("by their behaviour"), note.npos) << note;
}

TEST(Behaviour, KernelsThatBeginApartAndEndApartDoNotCommunicate) {
  Ranks ranks("attention");
  ranks.synchronises = false;
  const Analysis a = ranks.analyzed();
  EXPECT_TRUE(a.collectives.empty());
}

}  // namespace
}  // namespace tracesmith::analysis
