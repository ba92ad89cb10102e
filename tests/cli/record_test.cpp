// `tracesmith record`: the last seconds of a running job, the next ones, and what is in flight.
#include <signal.h>
#include <unistd.h>

#include "cli/run_fixture.hpp"

namespace tracesmith {
namespace {

/// A job with a flight recorder: it launches 20 kernels on stream 1, then waits for go, launches 30 on stream 2 and
/// waits for end.
class FlightTest : public RunTest {
 protected:
  void SetUp() override {
    job_ = std::make_unique<Child>(underRun({kFakeCuda, "kernels 20 1", "settle", "file " + (dir_ / "go"),
                                             "kernels 30 2", "settle", "file " + (dir_ / "end")},
                                            {"--flight", "60", "--mode", "default"}),
                                   environment());
    ring_ = ringOfJob();
    ASSERT_TRUE(ring_) << job_->err();
    ASSERT_TRUE(eventually([&] { return kernelsIn(*ring_) == 20; })) << job_->err();
  }
  void go() {
    test::writeFile(dir_ / "go", "");
    ASSERT_TRUE(eventually([&] { return kernelsIn(*ring_) == 50; })) << job_->err();
  }
  void end() {
    test::writeFile(dir_ / "go", "");
    test::writeFile(dir_ / "end", "");
    EXPECT_EQ(job_->wait().rc, 0) << job_->err();
  }
  std::unique_ptr<Child> job_;
  std::unique_ptr<ring::RingReader> ring_;
};

TEST_F(FlightTest, TheLastSecondsCanBeHadAnyTime) {
  const Output all = record({"--all", "--last", "60"});
  EXPECT_EQ(all.rc, 0) << all.err;
  EXPECT_TRUE(has(all.out, "20 kernels")) << all.out;
  EXPECT_EQ(kernels("r.sbt"), 20u);
  go();
  const Output one = record({"--pid", std::to_string(ring_->header().pid), "--last", "60", "--json"});
  EXPECT_EQ(one.rc, 0) << one.err;
  EXPECT_TRUE(has(one.out, "\"kernels\":50")) << one.out;
  EXPECT_EQ(kernels("r.sbt"), 50u) << "a snapshot takes nothing away";
  EXPECT_EQ(record({"--all", "--last", "0.000001"}).rc, 0);
  EXPECT_EQ(kernels("r.sbt"), 0u) << "nothing is that young";
  const Output none = record({"--pid", std::to_string(::getpid()), "--last", "60"});
  EXPECT_EQ(none.rc, 1);
  EXPECT_TRUE(has(none.err, "no process is running under the probe")) << none.err;
  end();
  EXPECT_EQ(kernels(), 50u) << "and the end is written as ever";
}

TEST_F(FlightTest, TheNextSecondsCanBeRecorded) {
  Child recorder({TRACESMITH_BIN, "record", "--all", "-d", "3600", "-o", dir_ / "r.sbt"}, environment());
  ASSERT_TRUE(eventually([&] { return ring_->attachedReader() == recorder.pid(); })) << recorder.err();
  const Output second = record({"--all", "-d", "1"});
  EXPECT_EQ(second.rc, 1);
  EXPECT_TRUE(has(second.err, "already being recorded")) << second.err;
  go();
  recorder.signal(SIGINT);  // enough: what there is is kept
  const Output o = recorder.wait();
  EXPECT_EQ(o.rc, 0) << o.err;
  size_t on_stream2 = 0;
  for (const Row& k : rows(dir_ / "r.sbt", "events", "type", "kernel")) on_stream2 += k.i("stream") == 2;
  EXPECT_EQ(on_stream2, 30u);
  EXPECT_EQ(kernels("r.sbt"), 30u) << "not what was before";
  EXPECT_EQ(ring_->attachedReader(), 0) << "the flight recorder goes on";
  end();
  EXPECT_EQ(kernels(), 50u);
}

TEST_F(FlightTest, ARecorderThatWasKilledDoesNotBlockTheNext) {
  Child recorder({TRACESMITH_BIN, "record", "--all", "-d", "3600", "-o", dir_ / "r.sbt"}, environment());
  ASSERT_TRUE(eventually([&] { return ring_->attachedReader() == recorder.pid(); })) << recorder.err();
  recorder.signal(SIGKILL);
  EXPECT_EQ(recorder.wait().rc, 128 + SIGKILL);
  EXPECT_FALSE(exists(dir_ / "r.sbt")) << "whole or absent";
  Child next({TRACESMITH_BIN, "record", "--all", "-d", "3600", "-o", dir_ / "r.sbt"}, environment());
  ASSERT_TRUE(eventually([&] { return ring_->attachedReader() == next.pid(); })) << next.err();
  go();
  end();  // ends by itself with the job
  EXPECT_EQ(next.wait().rc, 0) << next.err();
  EXPECT_EQ(kernels("r.sbt"), 30u);
}

TEST_F(RunTest, AJobThatIsRecordedIsNotRecordedTwice) {
  Child job(underRun({kFakeCuda, "kernels 5", "touch " + (dir_ / "up"), "file " + (dir_ / "end")}), environment());
  ASSERT_TRUE(eventually([&] { return exists(dir_ / "up"); })) << job.err();
  const Output o = record({"--all", "-d", "1"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "already being recorded")) << o.err;
  test::writeFile(dir_ / "end", "");
  EXPECT_EQ(job.wait().rc, 0);
  EXPECT_EQ(kernels(), 5u);
}

TEST_F(RunTest, WhatRanksWaitForIsSeenLive) {
  Child job(underRun({TRACESMITH_BIN, "synth", "--live", "--ranks", "3", "--operations", "40", "--step-ms", "5",
                      "--fault", "hang=1:4"}),
            environment());
  const Command look = {TRACESMITH_BIN, "record", "--all", "--in-flight"};
  // Rank 1 never comes to the operation the others wait for; its own earlier ones have ended.
  EXPECT_TRUE(eventually([&] {
    const Output o = test::runWith(environment(), look);
    const bool waiting = has(o.out, "\n   0  ") && has(o.out, "\n   2  ");
    return o.rc == 0 && waiting && !has(o.out, "\n   1  ");
  }));
  Command json = look;
  json.push_back("--json");
  const Output o = test::runWith(environment(), json);
  EXPECT_TRUE(has(o.out, "\"simulated\":true")) << o.out;
  EXPECT_TRUE(has(o.out, "\"age_ns\":")) << o.out;
  EXPECT_TRUE(has(o.out, "\"stopped\":false")) << o.out;
  job.signalGroup(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return has(test::runWith(environment(), json).out, "\"stopped\":true"); }));
  job.signalGroup(SIGCONT);
  job.signal(SIGTERM);
  job.wait();
  EXPECT_EQ(test::runWith(environment(), look).rc, 1) << "nobody runs any more";
}

}  // namespace
}  // namespace tracesmith
