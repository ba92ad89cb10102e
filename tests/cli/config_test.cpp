// `tracesmith config`: what the probe does, read and changed while the job runs.
#include "capture/ring/settings.hpp"
#include "cli/run_fixture.hpp"

namespace tracesmith {
namespace {

/// A job that launches 20 kernels, then 30 when told to go, and ends when told to.
class ConfigTest : public RunTest {
 protected:
  void SetUp() override {
    job_ = std::make_unique<Child>(underRun({kFakeCuda, "kernels 20 1", "settle", "file " + (dir_ / "go"),
                                             "kernels 30 2", "settle", "file " + (dir_ / "end")},
                                            {"--flight", "60", "--mode", "default"}),
                                   environment({{"RANK", "5"}}));
    ring_ = ringOfJob();
    ASSERT_TRUE(ring_) << job_->err();
    ASSERT_TRUE(eventually([&] { return kernelsIn(*ring_) == 20; })) << job_->err();
    pid_ = std::to_string(ring_->header().pid);
  }
  void TearDown() override {
    for (const char* file : {"go", "end"}) test::writeFile(dir_ / file, "");
    EXPECT_EQ(job_->wait().rc, 0) << job_->err();
  }
  Output config(const Command& words) const {
    Command argv = {TRACESMITH_BIN, "config"};
    argv.insert(argv.end(), words.begin(), words.end());
    return test::runWith(environment(), argv);
  }
  std::unique_ptr<Child> job_;
  std::unique_ptr<ring::RingReader> ring_;
  std::string pid_;
};

TEST_F(ConfigTest, AllSettingsAreShownAndExplained) {
  const Output o = config({pid_});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "Process " + pid_ + ", rank 5: ")) << o.out;
  for (const ring::SettingInfo& s : ring::settings()) EXPECT_TRUE(has(o.out, s.key) && has(o.out, s.meaning)) << o.out;
  EXPECT_EQ(config({pid_, "mode"}).out, "default\n");
  EXPECT_EQ(config({"-t", pid_, "gpu"}).out, "on\n");
  EXPECT_EQ(config({"-t", "rank:5", "mode", "--master", "127.0.0.1:1"}).rc, 1) << "ranks are the cluster's";
  const Output json = config({"--all", "--json"});
  EXPECT_TRUE(has(json.out, "\"pid\":" + pid_ + ",\"rank\":5") &&
              has(json.out, R"("settings":{"recording":"on","mode":"default",)") &&
              has(json.out, R"({"key":"mode","values":"light, default, full, watch",)"))
      << json.out;
}

TEST_F(ConfigTest, APausedProcessRecordsNothing) {
  Output o = config({pid_, "recording=off"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "process " + pid_ + ", rank 5: recording=off, was on\n");
  EXPECT_EQ(config({pid_, "recording=off"}).out, "process " + pid_ + ", rank 5: recording=off already\n");
  ASSERT_TRUE(eventually([&] { return config({pid_, "gpu"}).out == "off\n"; })) << "the probe follows";
  test::writeFile(dir_ / "go", "");
  EXPECT_EQ(config({pid_, "recording=on", "mode=light"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return config({pid_, "gpu"}).out == "on\n"; }));
  EXPECT_EQ(config({pid_, "mode"}).out, "light\n");
  EXPECT_EQ(ring_->header().mode.load(), 0u);
}

TEST_F(ConfigTest, TheWindowsOfWatchModeAndTheirBudget) {
  Output o = config({pid_, "mode=watch", "window=3/50", "budget=0.5%"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "mode=watch, was default\n") && has(o.out, "window=3/50, was 2/100\n") &&
              has(o.out, "budget=0.5%, was off\n"))
      << o.out;
  const ring::RingHeader& h = ring_->header();
  EXPECT_EQ(h.window_steps.load(), 3u);
  EXPECT_EQ(h.window_every.load(), 50u);
  EXPECT_EQ(h.window_asked.load(), 50u);
  EXPECT_EQ(h.budget_ppm.load(), 5000u);
  o = config({pid_, "window=3/5"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "N of at least K + 3, or budget=off")) << o.err;
  EXPECT_EQ(h.window_every.load(), 50u) << "all or nothing";
  EXPECT_EQ(config({pid_, "window=3/5", "budget=off"}).rc, 0);
  EXPECT_EQ(h.window_every.load(), 5u);
}

TEST_F(ConfigTest, WhatIsWrongIsNamed) {
  const auto refused = [&](const Command& words, int rc, const std::string& why) {
    const Output o = config(words);
    EXPECT_EQ(o.rc, rc) << o.err;
    EXPECT_TRUE(has(o.err, why) && o.err.find('\n') == o.err.size() - 1) << o.err;
  };
  refused({pid_, "colour=red"}, 2,
          "there is no setting \"colour\"; settings are recording, mode, window, budget, cost, gpu, reader");
  refused({pid_, "mode=fast"}, 2, "mode takes light, default, full or watch, not \"fast\"");
  refused({pid_, "mode="}, 2, "mode takes light, default, full, watch");
  refused({pid_, "recording=1"}, 2, "recording takes on or off");
  refused({pid_, "window=0/9"}, 2, "window takes K/N");
  refused({pid_, "budget=101"}, 2, "budget takes off, or a percentage");
  refused({pid_, "cost=1"}, 2, "cost can only be read");
  refused({}, 2, "name a process");
  refused({"mode"}, 2, "name a process");
  refused({"-1"}, 2, "");
  refused({"--all", pid_}, 2, "either process ids or --all");
  refused({std::to_string(::getpid())}, 1, "is not under the probe");
  refused({"-t", "nonsense", "mode"}, 2, "-t takes");
}

}  // namespace
}  // namespace tracesmith
