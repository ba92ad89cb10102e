// The probe, brought into processes that run already: they go on unharmed.
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "attaching.hpp"
#include "process/inject.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class AttachingTo : public Attaching, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Work, AttachingTo, testing::Values("allocates", "computes", "waits", "sleeps"),
                         [](const auto& kind) { return kind.param; });

TEST_P(AttachingTo, TheProgramGoesOnUnharmed) {
  const auto child = work(GetParam());
  const Output o = attach(*child);
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "process " + std::to_string(child->pid()) + " is under the probe, in mode default")) << o.out;
  EXPECT_TRUE(has(o.out, "note: CUDA is not in use yet")) << o.out;
  const std::string maps = mappings(child->pid());
  EXPECT_TRUE(has(maps, "libtracesmith_probe.so"));
  EXPECT_TRUE(has(tool("ps", {"-t", std::to_string(child->pid())}).out, "default")) << "ps knows it";
  const Output again = attach(*child);
  EXPECT_EQ(again.rc, 1);
  EXPECT_TRUE(has(again.err, "already has the probe (mode default)")) << again.err;
  expectGood(*child);
}

TEST_F(Attaching, DetachPausesAndAttachGoesOn) {
  const auto child = work("sleeps");
  const std::string pid = std::to_string(child->pid());
  ASSERT_EQ(attach(*child, {"--mode", "watch"}).rc, 0);
  EXPECT_EQ(tool("config", {pid, "mode"}).out, "watch\n");
  Output o = tool("detach", {pid});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "is no longer recorded")) << o.out;
  EXPECT_EQ(tool("config", {pid, "recording"}).out, "off\n");
  EXPECT_TRUE(has(tool("detach", {pid}).out, "was not being recorded"));
  o = attach(*child, {"--mode", "light"});
  EXPECT_TRUE(has(o.out, "had the probe already: it records again, in mode light")) << o.out << o.err;
  EXPECT_EQ(tool("config", {pid, "recording"}).out, "on\n");
  expectGood(*child);
}

class AttachingToCuda : public Attaching {
 protected:
  static std::string build(const std::string& file) { return std::string(TRACESMITH_BUILD_DIR) + file; }
  /// Launches 20 kernels, and 30 when told to go.
  std::unique_ptr<Child> job(const std::vector<std::string>& then, bool driver) const {
    std::vector<std::string> argv = {build("/bin/tests/fake_cuda"), "later", "kernels 20 1", "file " + (rings_ / "go")};
    argv.insert(argv.end(), then.begin(), then.end());
    argv.insert(argv.end(), {"kernels 30 2", "settle", "file " + (rings_ / "end")});
    Environment environment = {{"TRACESMITH_CUPTI", build("/lib/tests/libcupti.so.13")}};
    if (driver) environment.push_back({"LD_PRELOAD", build("/lib/tests/driver/libcuda.so.1")});
    return std::make_unique<Child>(argv, environment);
  }
  /// Kernels in its ring, once there are so many.
  size_t kernels(const Child& child, size_t most) const {
    size_t n = 0;
    (void)eventually([&] {
      for (const std::string& path : ring::findRings(rings_.path()))
        if (auto reader = ring::RingReader::open(path); reader && (*reader)->header().pid == child.pid()) {
          n = 0;
          (*reader)->snapshot([&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::kernel; });
        }
      return n >= most;
    });
    return n;
  }
  void expectEnd(Child& child) const {
    writeFile(rings_ / "end", "");
    EXPECT_EQ(child.wait().rc, 0) << child.err();
  }
};

TEST_F(AttachingToCuda, WhatRunsAlreadyIsRecordedFromNowOn) {
  const auto child = job({}, true);
  const Output o = attach(*child);
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "note: the GPU is recorded from now on. CUPTI came late")) << o.out;
  writeFile(rings_ / "go", "");
  EXPECT_EQ(kernels(*child, 30), 30u) << "not those of before";
  expectEnd(*child);
}

TEST_F(AttachingToCuda, WhatStartsLaterLoadsTheProbeByItself) {
  const auto child = job({"init"}, false);
  const Output o = attach(*child);
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "note: CUDA is not in use yet")) << o.out;
  writeFile(rings_ / "go", "");
  EXPECT_EQ(kernels(*child, 30), 30u);
  expectEnd(*child);
}

// Whoever looks for a place again and again, as often as it likes, changes nothing.
TEST_F(Attaching, ManyCallsIntoABusyProgram) {
  const auto child = work("allocates");
  std::atomic<bool> stop{false};
  std::thread signals([&] {
    while (!stop) {
      child->signal(SIGUSR1);
      std::this_thread::yield();
    }
  });
  Injection injection;
  injection.library = std::string(TRACESMITH_BUILD_DIR) + "/lib/libtracesmith_probe.so";
  injection.function = "tracesmith_probe_eval";  // there is no Python: it says so at once
  injection.patience_ns = 60'000'000'000;
  int calls = 0;
  for (int i = 0; i < 15; ++i) {
    const Result<Injected> done = inject(child->pid(), injection);
    ASSERT_TRUE(done) << done.status().message();
    calls += done->value == ENOSYS;
  }
  stop = true;
  signals.join();
  EXPECT_EQ(calls, 15);
  // Nothing of ours is left but the library.
  EXPECT_FALSE(has(mappings(child->pid()), "r-xp 00000000 00:00 0 \n")) << mappings(child->pid());
  expectGood(*child);
}

TEST_F(Attaching, ACallThatCrashesIsUndone) {
  const auto child = work("sleeps");
  Injection injection;
  injection.library = std::string(TRACESMITH_BUILD_DIR) + "/lib/libtracesmith_probe.so";
  injection.function = "strlen";  // found through the library; of no text
  const auto try_it = [&](const std::string& function) {
    injection.function = function;
    return inject(child->pid(), injection).status().message();
  };
  EXPECT_TRUE(has(try_it("no_such_function"), "undefined symbol: no_such_function"));
  EXPECT_TRUE(has(try_it("abort"), "the call failed with signal 6"));
  EXPECT_TRUE(child->running());
  injection.library = "/nowhere/library.so";
  EXPECT_TRUE(has(try_it("f"), "/nowhere/library.so: cannot open shared object file"));
  expectGood(*child);
}

TEST_F(Attaching, WhatCannotBeIsRefusedWithItsReason) {
  Output o = attach(*std::make_unique<Child>(std::vector<std::string>{"true"}));
  EXPECT_EQ(o.rc, 1);
  const auto stopped = work("sleeps");
  stopped->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return tasks(stopped->pid()).at(0).state == 'T'; }));
  o = attach(*stopped);
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "is stopped: continue it first (kill -CONT ")) << o.err;
  stopped->signal(SIGCONT);
  expectGood(*stopped);
  if (exists(kWork + "_static")) {
    Child still({kWork + "_static", "sleeps"});
    ASSERT_TRUE(eventually([&] { return has(still.out(), "ready"); }));
    o = attach(still);
    EXPECT_EQ(o.rc, 1);
    EXPECT_TRUE(has(o.err, "is linked statically: it cannot load a library")) << o.err;
    expectGood(still);
  }
  o = tool("attach", {"4194304"});
  EXPECT_EQ(o.err, "tracesmith: no process 4194304\n");
  EXPECT_EQ(tool("attach", {"x"}).rc, 2);
  EXPECT_EQ(tool("detach", {std::to_string(stopped->pid())}).rc, 1);
}

TEST_F(Attaching, AnotherUsersProcessIsRefused) {
  const auto child = work("sleeps");
  const Output o =
      run({"setpriv", "--reuid=65534", "--clear-groups", TRACESMITH_BIN, "attach", std::to_string(child->pid())});
  if (o.rc == 127 || !has(o.err, "tracesmith")) GTEST_SKIP() << o.err;
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "is not permitted")) << o.err;
  expectGood(*child);
}

TEST_F(Attaching, ASeccompFilterIsRefusedUnlessAskedFor) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child =
      startPython(pythons().begin()->second,
                  "import ctypes, time\n"
                  "class Step(ctypes.Structure): _fields_ = [('code', ctypes.c_ushort), ('t', ctypes.c_ubyte), "
                  "('f', ctypes.c_ubyte), ('k', ctypes.c_uint)]\n"
                  "class Filter(ctypes.Structure): _fields_ = [('count', ctypes.c_ushort), ('steps', "
                  "ctypes.POINTER(Step))]\n"
                  "steps = (Step * 1)(Step(6, 0, 0, 0x7fff0000))\n"  // all is allowed
                  "libc = ctypes.CDLL(None)\n"
                  "libc.prctl(38, 1, 0, 0, 0)\n"
                  "assert libc.prctl(22, 2, ctypes.byref(Filter(1, steps)), 0, 0) == 0\n" +
                      std::string(kReady) + "while True: time.sleep(0.01)\n");
  Output o = attach(*child);
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "has a seccomp filter") && has(o.err, "--despite-seccomp")) << o.err;
  o = attach(*child, {"--despite-seccomp"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(child->running());
}

// The thread puts itself back: whoever borrowed it is not needed for that.
TEST_F(Attaching, WhoAttachesMayBeKilledAtAnyMoment) {
  const auto child = work("allocates");
  for (int i = 0; i < 10; ++i) {
    Child tool({TRACESMITH_BIN, "attach", std::to_string(child->pid())}, {{"TRACESMITH_DIR", rings_.path()}});
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * i));
    tool.signal(SIGKILL);
    (void)tool.wait();
    EXPECT_TRUE(child->running());
  }
  expectGood(*child);
}

TEST_F(Attaching, AProcessThatIsKilledMeanwhile) {
  for (int i = 0; i < 10; ++i) {
    const auto child = work("allocates");
    Child tool({TRACESMITH_BIN, "attach", std::to_string(child->pid())}, {{"TRACESMITH_DIR", rings_.path()}});
    std::this_thread::sleep_for(std::chrono::milliseconds(4 * i));
    child->signal(SIGKILL);
    const Output o = tool.wait();
    EXPECT_TRUE(o.rc == 0 || o.rc == 1) << o.rc << o.err;
  }
}

}  // namespace
}  // namespace tracesmith::test
