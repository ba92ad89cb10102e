// Native frames of real processes, merged with their Python frames.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <fstream>
#include <random>

#include "process/unwind.hpp"
#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class NativeStack : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!Unwinder::create(::getpid(), *modules(::getpid()))) GTEST_SKIP() << "no libdw here";
  }
  const std::string& python() const { return pythons().at(GetParam()); }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NativeStack);
INSTANTIATE_TEST_SUITE_P(Versions, NativeStack, testing::ValuesIn(pythonVersions()), nameOfVersion);

constexpr BacktraceOptions kNative{.native = true};

/// Place of the first frame of this name, counted from the innermost.
size_t place(const ThreadStack& t, const std::string& name, bool python) {
  for (size_t i = 0; i < t.frames.size(); ++i)
    if (t.frames[i].python == python && t.frames[i].function.ends_with(name)) return i;
  return SIZE_MAX;
}

bool stopped(pid_t pid) { return tasks(pid).at(0).state == 'T'; }

// Python calls C, which calls Python, which calls C: sorted() calls the key function.
TEST_P(NativeStack, FramesAreInTheOrderOfTheirCalls) {
  const auto child = startPython(python(), std::string("import ctypes\n"
                                                       "def outer(): return sorted([1], key=inner)\n"
                                                       "def inner(x):\n  return deepest(x)\n"
                                                       "def deepest(x):\n  ") +
                                               kReady +
                                               "  ctypes.PyDLL(None).sleep(1000)\n"
                                               "outer()\n");
  const ThreadStack t = waitForStack(
      child->pid(), [](const ThreadStack& s) { return s.state == "S" && place(s, "nanosleep", false) != SIZE_MAX; },
      kNative);
  const size_t sleep = place(t, "sleep", false), deepest = place(t, "deepest", true), inner = place(t, "inner", true),
               outer = place(t, "outer", true), module = place(t, "<module>", true),
               main = place(t, "Py_BytesMain", false);
  EXPECT_LT(sleep, deepest);
  EXPECT_LT(deepest, inner);
  EXPECT_LT(inner + 1, outer) << "the frames of sorted() are between them";
  EXPECT_LT(outer, module);
  EXPECT_LT(module, main);
  ASSERT_NE(main, SIZE_MAX);
  EXPECT_EQ(place(t, "_PyEval_EvalFrameDefault", false), SIZE_MAX);
  EXPECT_EQ(t.holds_gil, true);
  EXPECT_FALSE(t.truncated);
  ASSERT_TRUE(t.stopped_ns);
  EXPECT_GT(*t.stopped_ns, 0);
}

// Read while it stands still: no stack can be torn.
TEST_P(NativeStack, ABusyProcessIsReadExactly) {
  const auto child = startPython(python(), std::string(kReady) +
                                               "def a(): c()\n"
                                               "def b(): d()\n"
                                               "def c(): pass\n"
                                               "def d(): pass\n"
                                               "while True:\n"
                                               "  a()\n"
                                               "  b()\n");
  int exact = 0;
  for (int i = 0; i < 50; ++i) {
    const Result<Stacks> stacks = backtrace(child->pid(), kNative);
    ASSERT_TRUE(stacks);
    const ThreadStack& t = stacks->threads[0];
    if (!t.stopped_ns) {  // it did not stop in time: said, and read as it ran
      EXPECT_FALSE(stacks->notes.empty());
      continue;
    }
    ++exact;
    EXPECT_FALSE(t.changed || t.damaged);
    std::string names;
    for (const Frame& f : t.frames)
      if (f.python) names = f.function + " " + names;
    EXPECT_TRUE(names == "<module> " || names == "<module> a " || names == "<module> a c " || names == "<module> b " ||
                names == "<module> b d ")
        << names;
  }
  EXPECT_GT(exact, 25);
}

TEST_P(NativeStack, AStoppedProcessStaysStopped) {
  const auto child = startPython(python(), std::string(kReady) + "while True: pass\n");
  child->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return stopped(child->pid()); }));
  const ThreadStack t = waitForStack(
      child->pid(), [](const ThreadStack& s) { return place(s, "Py_BytesMain", false) != SIZE_MAX; }, kNative);
  EXPECT_NE(place(t, "<module>", true), SIZE_MAX);
  EXPECT_TRUE(eventually([&] { return stopped(child->pid()); }));
  child->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return !stopped(child->pid()); }));
}

TEST_P(NativeStack, NoSignalIsLost) {
  const auto child = startPython(python(), std::string("import signal, time\n"
                                                       "n = 0\n"
                                                       "def count(s, f):\n"
                                                       "  global n; n += 1\n"
                                                       "  sys.stdout.write(f'{n};'); sys.stdout.flush()\n"
                                                       "signal.signal(signal.SIGUSR1, count)\n") +
                                               kReady + "while True: time.sleep(0.002)\n");
  for (int i = 1; i <= 50; ++i) {
    child->signal(SIGUSR1);
    ASSERT_TRUE(backtrace(child->pid(), kNative));
    ASSERT_TRUE(eventually([&] { return child->out().find(std::to_string(i) + ";") != std::string::npos; })) << i;
  }
  EXPECT_TRUE(child->running());
}

class Native : public testing::Test {
 protected:
  void SetUp() override {
    if (!Unwinder::create(::getpid(), *modules(::getpid()))) GTEST_SKIP() << "no libdw here";
  }
};

TEST_F(Native, AProcessWithoutPython) {
  Child child({"sleep", "1000"});
  const ThreadStack t = waitForStack(
      child.pid(), [](const ThreadStack& s) { return place(s, "nanosleep", false) != SIZE_MAX; }, kNative);
  EXPECT_FALSE(t.python);
  EXPECT_EQ(t.frames.back().function, "");  // sleep is stripped: its _start has no name
  EXPECT_TRUE(t.frames.back().address);
  const Output out = tracesmith({"backtrace", "--native", std::to_string(child.pid())});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_NE(out.out.find("not a Python process, 1 thread\n"), std::string::npos) << out.out;
}

constexpr const char* kInlining = R"(#include <unistd.h>
static volatile int sink;
static inline __attribute__((always_inline)) void innermost() {
  sleep(1000);
  sink = 1;
}
static inline __attribute__((always_inline)) void middle() {
  innermost();
  sink = 2;
}
__attribute__((noinline)) void outermost() {
  middle();
  sink = 3;
}
int main() {
  write(1, "ready", 5);
  outermost();
  return 0;
}
)";

TEST_F(Native, InlinedFunctionsAndLines) {
  TempDir dir;
  writeFile(dir / "inlining.c", kInlining);
  if (run({"gcc", "-w", "-O2", "-g", "-o", dir / "inlining", dir / "inlining.c"}).rc != 0)
    GTEST_SKIP() << "no gcc here";
  Child child({dir / "inlining"});
  const ThreadStack t =
      waitForStack(child.pid(), [](const ThreadStack& s) { return place(s, "innermost", false) != SIZE_MAX; },
                   {.native = true, .sources = true});
  const size_t at = place(t, "innermost", false);
  ASSERT_NE(at, SIZE_MAX);
  ASSERT_GT(t.frames.size(), at + 3);
  const std::pair<const char*, int> expected[] = {{"innermost", 4}, {"middle", 8}, {"outermost", 12}, {"main", 17}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(t.frames[at + i].function, expected[i].first);
    EXPECT_EQ(t.frames[at + i].line, expected[i].second);
    EXPECT_TRUE(t.frames[at + i].source.ends_with("inlining.c")) << t.frames[at + i].source;
  }
  EXPECT_EQ(tracesmith({"backtrace", "--sources", "--all"}).rc, 2);
}

TEST_F(Native, ProcessesOfDebuggersHavePythonFramesAndAReason) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child =
      startPython(pythons().begin()->second, std::string("import time\n") + kReady + "time.sleep(1000)\n");
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child->pid(), nullptr, nullptr), 0);
  const Output out = tracesmith({"backtrace", "--native", std::to_string(child->pid())});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_NE(out.out.find("<module> (<string>:"), std::string::npos) << out.out;
  EXPECT_NE(out.out.find("\nnote: "), std::string::npos) << out.out;
}

TEST_F(Native, SnapshotsThatAreDamagedEnd) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child =
      startPython(pythons().begin()->second, std::string("import time\n") + kReady + "time.sleep(1000)\n");
  const auto mapped = modules(child->pid());
  ASSERT_TRUE(mapped);
  auto unwinder = Unwinder::create(child->pid(), *mapped);
  ASSERT_TRUE(unwinder);
  Result<std::vector<Snapshot>> taken = Status::unavailable("");
  ASSERT_TRUE(eventually([&] {
    taken = snapshots(child->pid(), tasks(child->pid()), [](size_t) {});
    return taken && taken->at(0).taken;
  }));
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    Snapshot s = taken->at(0);
    for (int k = 0; k < 20; ++k) s.stack[random() % s.stack.size()] = static_cast<char>(random());
    if (i % 3 == 0) s.registers[random() % 17] ^= 1ull << random() % 64;
    if (i % 5 == 0) s.stack.resize(random() % s.stack.size());
    bool complete = false;
    EXPECT_LE((*unwinder)->unwind(s, complete).size(), Unwinder::kMostFrames);
  }
}

}  // namespace
}  // namespace tracesmith::test
