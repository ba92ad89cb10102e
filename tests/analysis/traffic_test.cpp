// Which ranks an operation's transfers are drawn between.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kRanks = 4;
constexpr uint64_t kMiB = 1 << 20;

/// All-reduces, or other operations, of 1 MiB by these algorithms, one after another; "": not told.
Analysis job(const std::vector<std::string>& algorithms, const std::string& op = "all_reduce", int32_t root = -1) {
  WrittenTrace trace;
  for (size_t i = 0; i < algorithms.size(); ++i)
    for (int r = 0; r < kRanks; ++r) {
      CollectiveRow c;
      c.ts = static_cast<int64_t>(i + 1) * 1'000'000;
      c.dur = 100'000;
      c.op = trace.string(op);
      c.comm = trace.string("world");
      c.name = trace.string("ncclDevKernel_AllReduce");
      c.node = trace.string("n0");
      if (!algorithms[i].empty()) c.algo = trace.string(algorithms[i]);
      c.seq = static_cast<int64_t>(i);
      c.rank = c.group_rank = r;
      c.group_size = kRanks;
      c.bytes = kMiB;
      if (root >= 0) c.peer = root;
      trace.add(c);
    }
  return trace.analyzed();
}

uint64_t sent(const Analysis& a, int64_t from, int64_t to) {
  for (const MatrixCell& c : a.matrix)
    if (c.from == from && c.to == to) return c.bytes;
  return 0;
}

TEST(Traffic, FollowsTheAlgorithmOfEachOperation) {
  // The same communicator runs large messages as rings and small ones as trees; the last is a tree.
  const Analysis a = job({"ring", "tree", "ring", "ring", "tree"});
  const uint64_t ring = 3 * kMiB * 3 / 2, tree = 2 * kMiB;
  EXPECT_EQ(sent(a, 3, 0), ring) << "the ring closes here; no tree has this edge";
  EXPECT_EQ(sent(a, 2, 3), ring);
  EXPECT_EQ(sent(a, 1, 2), ring);
  EXPECT_EQ(sent(a, 0, 1), ring + tree);
  EXPECT_EQ(sent(a, 1, 0), tree) << "up the tree; no ring goes back";
  EXPECT_EQ(sent(a, 3, 1), tree);
  EXPECT_EQ(sent(a, 2, 1), 0u);
  EXPECT_EQ(a.pattern, "ring") << "it moved most";
  EXPECT_EQ(a.matrix_note, "");
}

TEST(Traffic, SaysWhatIsDrawnAsARingWithoutKnowingIt) {
  const Analysis a = job({"ring", "", "pat"});
  EXPECT_EQ(sent(a, 3, 0), 3 * kMiB * 3 / 2);
  EXPECT_TRUE(a.matrix_note.starts_with("2 of 3 operations")) << a.matrix_note;
}

TEST(Traffic, OfARootedOperationIsDrawnFromItsRootOnly) {
  for (const char* op : {"gather", "scatter", "broadcast", "reduce"}) {
    const Analysis known = job({"ring"}, op, 2), unknown = job({"ring"}, op);
    EXPECT_EQ(known.matrix.size(), kRanks - 1u) << op;
    EXPECT_EQ(known.matrix_note, "") << op;
    EXPECT_TRUE(unknown.matrix.empty()) << op << " has no known root";
    EXPECT_EQ(unknown.matrix_note, "1 of 1 operations left out: the trace does not name the root") << op;
  }
  EXPECT_EQ(sent(job({""}, "gather", 2), 0, 2), kMiB);
  EXPECT_EQ(sent(job({""}, "scatter", 2), 2, 0), kMiB);
}

}  // namespace
}  // namespace tracesmith::analysis
