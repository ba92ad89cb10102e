// `tracesmith run` changes nothing for the command: input, output, signals, exit code, environment.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "cli/run_fixture.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith {
namespace {

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
