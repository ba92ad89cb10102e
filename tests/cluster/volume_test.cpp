// More data than memory: everything arrives once, and nobody grows with it.
#include <filesystem>
#include <fstream>

#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class Volume : public ClusterFixture {
 protected:
  /// What a process has for itself: files and rings it maps are not counted. Bytes.
  static int64_t ownMemory(const Child& child) {
    std::ifstream in("/proc/" + std::to_string(child.pid()) + "/status");
    for (std::string word; in >> word;)
      if (int64_t kb; word == "RssAnon:" && in >> kb) return kb * 1024;
    ADD_FAILURE() << "the kernel does not say";
    return 0;
  }
  static uint64_t bytesIn(const std::string& folder) {
    uint64_t bytes = 0;
    std::error_code gone;
    for (const auto& file : std::filesystem::directory_iterator(folder, gone)) bytes += file.file_size(gone);
    return bytes;
  }
};

TEST_F(Volume, TenThousandTimesARingGoesThroughItOnceAndNobodyGrows) {
  constexpr int64_t kLane = 256, kRing = kLane + 64;  // records: see numbered_job
  constexpr int64_t kCount = 10'000 * kRing;
  constexpr uint64_t kSegment = 1 << 20;
#ifdef __SANITIZE_ADDRESS__
  constexpr int64_t kMost = 1 << 30;  // it keeps what was freed
#else
  constexpr int64_t kMost = 4 << 20;  // some MB come and go; what is stored meanwhile is 13 MB
#endif
  startMaster();
  auto a = agent("alpha", {"--segment-bytes", std::to_string(kSegment)});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  auto j = job(kCount, 0, kLane);
  ASSERT_TRUE(eventually([&] { return nodeField("records") >= kCount / 10; })) << a->err();
  const int64_t agent_then = ownMemory(*a), master_then = ownMemory(*master_);
  ASSERT_EQ(j->wait().rc, 0);
  const Output o = command({"stop", "--name", "all"});
  ASSERT_TRUE(o.rc == 0 && has(o.out, "complete")) << o.out << o.err;
  EXPECT_LT(ownMemory(*a) - agent_then, kMost);
  EXPECT_LT(ownMemory(*master_) - master_then, kMost);
  const std::string spool = dir_ / "a-alpha/agent/spool";
  EXPECT_TRUE(eventually([&] { return bytesIn(spool) < 2 * kSegment; })) << bytesIn(spool);
  ASSERT_EQ(command({"recover", "--name", "all", "--export", dir_ / "all.sbt"}).rc, 0);
  expectAllOnce(dir_ / "all.sbt", kCount);
  EXPECT_TRUE(test::losses(dir_ / "all.sbt").empty());
}

}  // namespace
}  // namespace tracesmith::cluster
