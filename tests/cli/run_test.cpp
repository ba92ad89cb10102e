// `tracesmith run` and `record` change nothing for the command: input, output, signals, exit code, environment.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "capture/ring/reader.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith {
namespace {

using test::Child;
using test::Environment;
using test::eventually;
using test::exists;
using test::Output;
using test::Row;
using test::rows;
using test::TempDir;
using Command = std::vector<std::string>;

const std::string kBuild = TRACESMITH_BUILD_DIR;
const std::string kFakeCuda = kBuild + "/bin/tests/fake_cuda";
const std::string kOther = kBuild + "/lib/tests/libfake_other_profiler.so";

class RunTest : public ::testing::Test {
 protected:
  Command underRun(const Command& command, const Command& flags = {}) const {
    Command argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back("--");
    argv.insert(argv.end(), command.begin(), command.end());
    return argv;
  }
  Environment environment(const Environment& more = {}) const {
    Environment all = {{"TRACESMITH_DIR", rings()}, {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output run(const Command& command, const Command& flags = {}, const Environment& more = {}) const {
    return test::runWith(environment(more), underRun(command, flags));
  }
  Output shell(const std::string& script, const Environment& more = {}) const {
    return run({"sh", "-c", script}, {}, more);
  }
  Output record(const Command& arguments) const {
    Command argv = {TRACESMITH_BIN, "record", "--force", "-o", dir_ / "r.sbt"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return test::runWith(environment(), argv);
  }

  std::string trace() const { return dir_ / "t.sbt"; }
  std::string rings() const { return dir_ / "rings"; }
  size_t kernels(const std::string& name = "t.sbt") const {
    return rows(dir_ / name, "events", "type", "kernel").size();
  }
  size_t ringFolders() const {
    size_t n = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(rings(), ignored)) n += entry.is_directory();
    return n;
  }
  std::unique_ptr<ring::RingReader> ringOfJob() const {
    std::unique_ptr<ring::RingReader> found;
    eventually([&] {
      std::error_code ignored;
      for (const auto& folder : std::filesystem::directory_iterator(rings(), ignored))
        for (const std::string& path : ring::findRings(folder.path()))
          if (auto reader = ring::RingReader::open(path)) found = std::move(*reader);
      return found != nullptr;
    });
    return found;
  }
  static size_t kernelsIn(const ring::RingReader& ring) {
    size_t n = 0;
    ring.snapshot([&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::kernel; });
    return n;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TempDir dir_;
};

TEST_F(RunTest, InputAndOutputPassByteForByte) {
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  Command argv = {"env", "TRACESMITH_DIR=" + rings()};
  for (const std::string& a : underRun({"cat"})) argv.push_back(a);
  const Output o = test::run(argv, bytes);
  EXPECT_EQ(o.rc, 0);
  EXPECT_TRUE(o.out == bytes);
  const Output both = shell("printf 'out\\0put'; printf 'err\\0or' >&2");
  EXPECT_EQ(both.out, std::string("out\0put", 7));
  EXPECT_EQ(both.err.find(std::string("err\0or", 6)), 0u);
  EXPECT_TRUE(has(both.err, "tracesmith: ")) << "and a line about the trace at the end";
}

TEST_F(RunTest, TheExitCodeIsTheCommands) {
  EXPECT_EQ(shell("exit 0").rc, 0);
  EXPECT_EQ(shell("exit 7").rc, 7);
  EXPECT_EQ(shell("exit 255").rc, 255);
  EXPECT_EQ(shell("kill -KILL $$").rc, 128 + SIGKILL);
  EXPECT_EQ(shell("kill -TERM $$").rc, 128 + SIGTERM);
  const Output unknown = run({"no-such-command-at-all"});
  EXPECT_EQ(unknown.rc, 127);
  EXPECT_TRUE(has(unknown.err, "cannot run no-such-command-at-all: No such file")) << unknown.err;
  test::writeFile(dir_ / "plain", "no program");
  EXPECT_EQ(run({dir_ / "plain"}).rc, 126);
  EXPECT_EQ(ringFolders(), 0u);
}

TEST_F(RunTest, SignalsAreForwarded) {
  for (auto [name, number] : {std::pair{"TERM", SIGTERM}, {"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}}) {
    const std::string ready = dir_ / name;
    Child job(underRun({"sh", "-c",
                        "trap 'echo got " + std::string(name) + "; exit 9' " + name + "; touch " + ready +
                            "; while :; do sleep 0.01; done"}),
              environment());
    ASSERT_TRUE(eventually([&] { return exists(ready); }));
    job.signal(number);
    const Output o = job.wait();
    EXPECT_EQ(o.rc, 9) << name;
    EXPECT_EQ(o.out, "got " + std::string(name) + "\n");
    EXPECT_TRUE(trace::Reader::open(trace()).ok());
  }
}

TEST_F(RunTest, TerminatedTheTraceIsComplete) {
  Child job(underRun({kFakeCuda, "kernels 8", "settle", "touch " + (dir_ / "ready"), "file " + (dir_ / "never")}),
            environment());
  ASSERT_TRUE(eventually([&] { return exists(dir_ / "ready"); })) << job.err();
  auto ring = ringOfJob();
  ASSERT_TRUE(eventually([&] { return kernelsIn(*ring) == 8; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().rc, 128 + SIGTERM);
  EXPECT_EQ(kernels(), 8u);
  EXPECT_TRUE((*trace::Reader::open(trace()))->closed());
}

TEST_F(RunTest, AnInterruptOfTheGroupEndsBoth) {
  Child job(underRun({"sh", "-c", "touch " + (dir_ / "ready") + "; exec sleep 60"}), environment());
  ASSERT_TRUE(eventually([&] { return exists(dir_ / "ready"); }));
  // The shell becomes sleep after it made the file; both end of an interrupt.
  job.signalGroup(SIGINT);
  EXPECT_EQ(job.wait().rc, 128 + SIGINT);
  EXPECT_TRUE((*trace::Reader::open(trace()))->closed());
  // A command that handles it has the last word.
  Child polite(
      underRun(
          {"sh", "-c", "trap 'echo saving; exit 5' INT; touch " + (dir_ / "again") + "; while :; do sleep 0.01; done"}),
      environment());
  ASSERT_TRUE(eventually([&] { return exists(dir_ / "again"); }));
  polite.signalGroup(SIGINT);
  const Output o = polite.wait();
  EXPECT_EQ(o.rc, 5);
  EXPECT_EQ(o.out, "saving\n");
}

TEST_F(RunTest, TheCommandStartsAsItWouldWithoutUs) {
  // Ignored and blocked signals, open files, folder, limits: what a process inherits.
  const std::string look = "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd; pwd; ulimit -a; umask";
  for (const char* before : {"", "trap '' INT HUP; ", "trap '' TERM USR1 CHLD; ", "umask 027; ulimit -n 500; "}) {
    const Output plain =
        test::runWith(environment(), {"sh", "-c", before + std::string("exec sh -c \"") + look + "\""});
    std::string ours = before + std::string("exec ");
    for (const std::string& a : underRun({})) ours += a + " ";
    const Output under = test::runWith(environment(), {"sh", "-c", ours + "sh -c \"" + look + "\""});
    EXPECT_EQ(under.rc, 0) << under.err;
    EXPECT_EQ(under.out, plain.out) << before;
  }
  const Output ignored = test::runWith(environment(), {"sh", "-c",
                                                       "trap '' CHLD; exec " + std::string(TRACESMITH_BIN) +
                                                           " run --force -o " + trace() + " -- sh -c 'exit 3'"});
  EXPECT_EQ(ignored.rc, 3) << "where ended children are nobody's business";
}

TEST_F(RunTest, ChildrenOfChildrenAreRecorded) {
  const Output o = shell("sh -c '" + kFakeCuda + " \"kernels 3\"; true'; RANK=4 " + kFakeCuda + " 'kernels 4'; (" +
                         kBuild + "/bin/tests/api_program_c train)");
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels(), 7u);
  EXPECT_EQ(rows(trace(), "steps").size(), 5u);
  const std::vector<Row> processes = rows(trace(), "processes");
  ASSERT_EQ(processes.size(), 3u);
  std::multiset<std::string> names;
  for (const Row& p : processes) names.insert(p.s("name") + " " + (p.null("rank") ? "-" : std::to_string(p.i("rank"))));
  EXPECT_EQ(names, (std::multiset<std::string>{"api_program_c -", "fake_cuda -", "fake_cuda 4"}));
}

TEST_F(RunTest, AChildThatOutlivesTheCommandIsWaitedForAMoment) {
  const Output o = shell(kFakeCuda + " 'kernels 2' 'touch " + (dir_ / "up") + "' 'file " + (dir_ / "go") +
                         "' 'kernels 3' & while [ ! -e " + (dir_ / "up") +
                         " ]; do sleep 0.01; done; (sleep 0.2; touch " + (dir_ / "go") + ") &");
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels(), 5u);
  EXPECT_FALSE(has(o.err, "still run")) << o.err;
}

TEST_F(RunTest, TheEnvironmentIsRespected) {
  const Output plain = shell(
      "echo $CUDA_INJECTION64_PATH; echo $NCCL_PROFILER_PLUGIN; echo $NVTX_INJECTION64_PATH; echo $LD_PRELOAD; echo "
      "$MINE",
      {{"MINE", "kept"}});
  const std::string probe = kBuild + "/lib/libtracesmith_probe.so\n";
  EXPECT_EQ(plain.out, probe + probe + probe + probe + "kept\n");
  const Output taken = shell("echo $NCCL_PROFILER_PLUGIN; echo $NVTX_INJECTION64_PATH; echo $LD_PRELOAD",
                             {{"NCCL_PROFILER_PLUGIN", "/other/plugin.so"},
                              {"NVTX_INJECTION64_PATH", "/other/nvtx.so"},
                              {"LD_PRELOAD", kOther}});
  EXPECT_EQ(taken.out, "/other/plugin.so\n/other/nvtx.so\n" + kBuild + "/lib/libtracesmith_probe.so:" + kOther + "\n");
  EXPECT_TRUE(has(taken.err, "NCCL_PROFILER_PLUGIN is already set")) << taken.err;
  EXPECT_TRUE(has(taken.err, "NVTX_INJECTION64_PATH is already set")) << taken.err;
}

TEST_F(RunTest, AnotherCudaInjectionIsCalledToo) {
  const Output o = run({kFakeCuda, "kernels 4", "exit 2"}, {},
                       {{"CUDA_INJECTION64_PATH", kOther}, {"FAKE_INJECTION_FILE", dir_ / "called"}});
  EXPECT_EQ(o.rc, 2);
  EXPECT_TRUE(exists(dir_ / "called"));
  EXPECT_EQ(kernels(), 4u);
  const Output broken = run({kFakeCuda, "kernels 4", "exit 2"}, {}, {{"CUDA_INJECTION64_PATH", "/nowhere.so"}});
  EXPECT_EQ(broken.rc, 2);
  EXPECT_EQ(kernels(), 4u);
}

TEST_F(RunTest, NothingIsLeftBehind) {
  EXPECT_EQ(run({kFakeCuda, "kernels 4"}).rc, 0);
  EXPECT_EQ(ringFolders(), 0u);
  EXPECT_EQ(run({kFakeCuda, "kernels 4", "kill"}).rc, 128 + SIGKILL);
  EXPECT_EQ(ringFolders(), 0u);
  EXPECT_EQ(run({kFakeCuda, "kernels 4"}, {"--flight", "5"}).rc, 0);
  EXPECT_EQ(ringFolders(), 0u);
}

TEST_F(RunTest, WhatAKilledRunLeftIsRemovedAndItsCommandGoesOn) {
  {
    Child job(underRun({"sh", "-c",
                        kFakeCuda + " 'kernels 2' 'touch " + (dir_ / "up") + "' 'file " + (dir_ / "go") + "'; touch " +
                            (dir_ / "survived")}),
              environment());
    ASSERT_TRUE(eventually([&] { return exists(dir_ / "up"); })) << job.err();
    job.signal(SIGKILL);
    EXPECT_EQ(job.wait().rc, 128 + SIGKILL);
    EXPECT_EQ(ringFolders(), 1u);
    EXPECT_EQ(shell("true").rc, 0);
    EXPECT_EQ(ringFolders(), 1u) << "somebody still writes there";
    test::writeFile(dir_ / "go", "");
    EXPECT_TRUE(eventually([&] { return exists(dir_ / "survived"); }));
  }
  EXPECT_TRUE(trace::Reader::open(trace()).ok()) << "as far as it was written";
  EXPECT_EQ(shell("true").rc, 0);
  EXPECT_EQ(ringFolders(), 0u);
}

TEST_F(RunTest, AFullDiskDoesNotHarmTheCommand) {
  const Output o =
      test::runWith(environment(), {TRACESMITH_BIN, "run", "-o", "/dev/full", "--", "sh", "-c", "echo fine; exit 4"});
  EXPECT_EQ(o.rc, 4);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "No space left")) << o.err;
  EXPECT_TRUE(has(o.err, "the command runs without being recorded")) << o.err;
  EXPECT_EQ(ringFolders(), 0u);
}

TEST_F(RunTest, AnOutputThatCannotBeIsRefusedBeforeTheCommandRuns) {
  for (const std::string& output : {dir_ / "none/t.sbt", dir_.path()}) {
    const Output o = test::runWith(environment(), {TRACESMITH_BIN, "run", "-o", output, "--", "touch", dir_ / "ran"});
    EXPECT_EQ(o.rc, 1);
    EXPECT_FALSE(exists(dir_ / "ran"));
    EXPECT_TRUE(has(o.err, output)) << o.err;
    EXPECT_EQ(ringFolders(), 0u);
  }
}

TEST_F(RunTest, ARingFolderOthersMayEnterIsRefused) {
  ASSERT_EQ(::mkdir(rings().c_str(), 0755), 0);
  const Output o = shell("touch " + (dir_ / "ran"));
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "chmod 700")) << o.err;
  EXPECT_FALSE(exists(dir_ / "ran"));
}

TEST_F(RunTest, TheSummaryCanBeJson) {
  const Output o = run({kFakeCuda, "kernels 4", "drop 2"}, {"--json"});
  EXPECT_TRUE(has(o.err, "\"processes\":1")) << o.err;
  EXPECT_TRUE(has(o.err, "\"kernels\":4")) << o.err;
  EXPECT_TRUE(has(o.err, "\"lost\":2")) << o.err;
}

TEST_F(RunTest, WrongUsageIsToldAndExits2) {
  for (const Command& wrong : {Command{"run"},
                               {"run", "--mode", "fast", "--", "true"},
                               {"run", "--flight", "0", "--", "true"},
                               {"run", "--mode", "watch", "--window", "3", "--", "true"},
                               {"run", "--mode", "watch", "--window", "3/2", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "much", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "0", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "-1%", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "1%%", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "nan", "--", "true"},
                               {"run", "--mode", "watch", "--budget", "1%", "--window", "2/4", "--", "true"},
                               {"run", "--budget", "1%", "--", "true"},
                               {"run", "--nccl-times", "events", "--", "true"},
                               {"run", "--mode", "watch", "--nccl-times", "often", "--", "true"},
                               {"run", "--window", "2/100", "--", "true"},
                               {"run", "--no-such-flag", "--", "true"},
                               {"record"},
                               {"record", "-o", "x.sbt"},
                               {"record", "-o", "x.sbt", "--all"},
                               {"record", "-o", "x.sbt", "--last", "3"},
                               {"record", "-o", "x.sbt", "--all", "--pid", "3", "--last", "3"},
                               {"record", "-o", "x.sbt", "--all", "--last", "3", "-d", "3"},
                               {"record", "-o", "x.sbt", "--all", "--last", "-1"},
                               {"record", "-o", "x.sbt", "--all", "--last", "many"},
                               {"record", "-o", "x.sbt", "--all", "--in-flight"},
                               {"record", "--all", "--last", "3"},
                               {"synth"},
                               {"synth", "--live", "-o", "x.sbt"},
                               {"synth", "--live", "--fault", "slow-gpu=x"}}) {
    Command argv = {TRACESMITH_BIN};
    argv.insert(argv.end(), wrong.begin(), wrong.end());
    const Output o = test::runWith(environment(), argv);
    EXPECT_EQ(o.rc, 2) << wrong.back();
    EXPECT_TRUE(has(o.err, "tracesmith: ")) << o.err;
    const bool one_line = wrong[0] != "run" || std::count(o.err.begin(), o.err.end(), '\n') == 1;
    EXPECT_TRUE(one_line) << o.err;
    EXPECT_EQ(o.out, "");
  }
}

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

TEST_F(RunTest, TheMachinesTelemetryIsInTheTrace) {
  EXPECT_EQ(run({"sleep", "0.3"}, {}, {{"TRACESMITH_SIM_GPUS", "2"}}).rc, 0);
  EXPECT_GT(rows(trace(), "metrics", "name", "gpu_power_watts").size(), 2u);
  EXPECT_EQ(rows(trace(), "nodes").size(), 1u);
  EXPECT_EQ(rows(trace(), "devices").size(), 2u);
  EXPECT_EQ(run({"sleep", "0.3"}, {"--no-telemetry"}).rc, 0);
  EXPECT_EQ(rows(trace(), "metrics").size(), 0u);
  EXPECT_EQ(rows(trace(), "nodes").size(), 1u);
}

TEST_F(RunTest, StepsAreSummedUp) {
  const Output o = run({TRACESMITH_BIN, "synth", "--live", "--ranks", "3", "--steps", "4", "--operations", "60",
                        "--step-ms", "10", "--fault", "slow-gpu=2:2"},
                       {"--per-step", "--json"});
  EXPECT_EQ(o.rc, 0) << o.err;
  for (int step = 0; step < 4; ++step)
    EXPECT_TRUE(has(o.err, "{\"step\":" + std::to_string(step) + ",\"ranks\":3,")) << o.err;
  EXPECT_TRUE(has(o.err, "\"most_computing_rank\":2")) << o.err;
  EXPECT_FALSE(has(o.err, "\"most_computing_rank\":1")) << o.err;
  EXPECT_TRUE(has(run({"true"}, {"--per-step"}).err, "no steps found"));
}

}  // namespace
}  // namespace tracesmith
