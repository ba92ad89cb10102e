// The reference clock of a master that is started again.
#include <gtest/gtest.h>

#include <sstream>

#include "cluster/master/master.hpp"
#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int64_t kMs = 1'000'000;

class MasterClock : public ::testing::Test {
 protected:
  void start() {
    MasterOptions options;
    options.data_dir = dir_ / "m";
    Result<std::unique_ptr<Master>> master = Master::open(options);
    ASSERT_TRUE(master) << master.status().message();
    master_ = std::move(*master);
  }
  void startAfterBoot() {
    master_.reset();
    const std::string was = test::readFile(dir_ / "m/reference");
    test::writeFile(dir_ / "m/reference", "another-boot" + was.substr(was.find(' ')));
    start();
  }
  int64_t anchor() const {
    std::istringstream in(test::readFile(dir_ / "m/reference"));
    std::string boot;
    int64_t ns = 0;
    in >> boot >> ns;
    return ns;
  }
  /// A node registers that knows a slightly later time.
  void tell() { master_->notBefore(master_->referenceId(), master_->referenceNow() + 15 * kMs, "n1"); }

  test::TempDir dir_;
  std::unique_ptr<Master> master_;
};

TEST_F(MasterClock, IsNotMovedByALittleOnceItIsSure) {
  start();
  const int64_t before = anchor();
  for (int i = 0; i < 20; ++i) tell();
  master_.reset();
  start();
  for (int i = 0; i < 20; ++i) tell();
  EXPECT_EQ(anchor(), before) << "nodes are wrong by so much";
}

/// Else what nodes recorded last would lie behind the end of a session that is stopped now.
TEST_F(MasterClock, IsMovedByALittleAfterItWasReadAnew) {
  start();
  startAfterBoot();
  const int64_t before = anchor();
  EXPECT_TRUE(test::eventually([&] { return tell(), anchor() > before; }));
  EXPECT_LE(anchor(), before + 15 * kMs);
  // Another node may come to the next run of this master.
  master_.reset();
  start();
  const int64_t then = anchor();
  EXPECT_TRUE(test::eventually([&] { return tell(), anchor() > then; }));
}

}  // namespace
}  // namespace tracesmith::cluster
