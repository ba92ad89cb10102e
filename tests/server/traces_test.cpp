// Sessions are laid out for the page a few at a time.
#include "server/sources/traces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/child.hpp"

namespace tracesmith::server {
namespace {

/// A master whose traces do not come before they are let go.
class SlowMaster final : public cluster::SessionTraces {
 public:
  Status fetchTo(const std::function<Status(std::string_view)>&, const std::string&,
                 const std::vector<std::string>&) override {
    std::unique_lock lock(mutex_);
    most_ = std::max(most_, ++fetching_);
    ++begun_;
    changed_.wait(lock, [&] { return let_go_; });
    --fetching_;
    return Status::unsupported("not here");
  }

  void letGo() {
    std::lock_guard lock(mutex_);
    let_go_ = true;
    changed_.notify_all();
  }
  int most() {
    std::lock_guard lock(mutex_);
    return most_;
  }
  int begun() {
    std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int fetching_ = 0, most_ = 0, begun_ = 0;
  bool let_go_ = false;
};

TEST(TracesOfAMaster, AFewAreLaidOutAtATimeAndTheOthersWait) {
  test::TempDir dir;
  SlowMaster master;
  auto find = [](const std::string& id) {
    cluster::SessionInfo session;
    session.id = session.name = id;
    session.start_ns = 1;
    session.end_ns = 2;
    return Result<cluster::SessionInfo>(session);
  };
  Traces traces(&master, find, {}, dir / "http");
  ASSERT_TRUE(traces.prepare());
  auto askAll = [&] {
    std::vector<std::thread> askers;
    for (int i = 0; i < 8; ++i)
      askers.emplace_back([&traces, i] {
        double progress = 0;
        (void)traces.open("s" + std::to_string(i), progress);
      });
    for (std::thread& t : askers) t.join();
  };
  askAll();
  EXPECT_TRUE(test::eventually([&] { return master.begun() == 2; }));
  askAll();
  EXPECT_EQ(master.most(), 2);
  EXPECT_EQ(master.begun(), 2) << "the others wait";
  master.letGo();
  EXPECT_TRUE(test::eventually([&] {
    askAll();
    return master.begun() >= 8;
  })) << "all get their turn";
  EXPECT_LE(master.most(), 2);
}

}  // namespace
}  // namespace tracesmith::server
