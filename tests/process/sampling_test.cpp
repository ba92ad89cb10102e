// Sampled stacks of real processes whose behaviour is known.
#include <signal.h>

#include "process/sampling.hpp"
#include "process/task_activity.hpp"
#include "pythons.hpp"
#include "trace/export/flame.hpp"

namespace tracesmith::test {
namespace {

using namespace process;
using trace::FlameTree;
using trace::FunctionTime;
using trace::StackCounts;

/// Ends the sampling once a condition holds, asked after every look.
class Until : public SampleSink {
 public:
  explicit Until(std::function<bool()> reached) : reached_(std::move(reached)) {}
  Status sample(int64_t, uint32_t, const ThreadSample&) override {
    ++samples;
    return {};
  }
  Status lookEnds(int64_t) override {
    if (reached_()) stop = true;
    return {};
  }
  std::atomic<bool> stop{false};
  uint64_t samples = 0;

 private:
  std::function<bool()> reached_;
};

/// Samples until the condition holds, half a minute at most.
template <typename Condition>
void sampleUntil(Sampling& sampling, Condition reached) {
  Until until(reached);
  ASSERT_TRUE(sampling.run(until.stop, &until, [](double) {}).ok());
}

SamplingOptions fast() { return {.seconds = 30, .rate = 500, .native = false}; }

uint64_t samplesOf(const StackCounts& counts, const std::string& function, StackCounts::State state) {
  uint64_t sum = 0;
  for (const auto& [key, count] : counts.counts)
    for (const uint32_t f : counts.table.framesOf(StackCounts::stackOf(key)))
      if (counts.table.text(f).starts_with(function + " (")) {
        sum += count.samples[state];
        break;
      }
  return sum;
}

class SampledPython : public testing::TestWithParam<std::string> {
 protected:
  const std::string& python() const { return pythons().at(GetParam()); }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SampledPython);
INSTANTIATE_TEST_SUITE_P(Versions, SampledPython, testing::ValuesIn(pythonVersions()), nameOfVersion);

TEST_P(SampledPython, SeventyPercentInOneFunctionAndAThreadThatSleeps) {
  const auto child = startPython(python(), std::string("import threading, time\n"
                                                       "def sleeper(): time.sleep(1000)\n"
                                                       "def large():\n"
                                                       "  for i in range(70000): pass\n"
                                                       "def small():\n"
                                                       "  for i in range(30000): pass\n"
                                                       "threading.Thread(target=sleeper, daemon=True).start()\n") +
                                               kReady +
                                               "while True:\n"
                                               "  large()\n"
                                               "  small()\n");
  ASSERT_TRUE(eventually([&] {
    const Result<Stacks> now = backtrace(child->pid());
    return now && now->threads.size() == 2 && now->threads[1].state == "S" && !now->threads[1].frames.empty() &&
           now->threads[1].frames[0].function == "sleeper";
  }));
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), 3, "here").ok());
  EXPECT_TRUE(sampling.processes()[0].python_version.starts_with(GetParam()));
  const StackCounts& counts = sampling.counts();
  double large = 0, small = 0;
  // On a busy machine the program stands at one place for many looks, so it takes more of them.
  sampleUntil(sampling, [&] {
    const uint64_t looks = counts.processes[0].looks;
    if (looks < 800 || looks % 100 != 0) return false;
    large = static_cast<double>(samplesOf(counts, "large", StackCounts::on_cpu));
    small = static_cast<double>(samplesOf(counts, "small", StackCounts::on_cpu));
    return looks >= 8000 || std::abs(large / (large + small) - 0.7) < 0.08;
  });
  EXPECT_GT(large + small, 500);
  EXPECT_NEAR(large / (large + small), 0.7, 0.1);
  EXPECT_EQ(samplesOf(counts, "sleeper", StackCounts::on_cpu), 0u);
  EXPECT_GT(samplesOf(counts, "sleeper", StackCounts::waiting), 700u);
  EXPECT_EQ(counts.processes[0].rank, 3);
  ASSERT_EQ(counts.threads.size(), 2u);
  EXPECT_EQ(counts.threads[0].tid, child->pid());
  EXPECT_FALSE(counts.threads[0].name.empty());

  const Result<FlameTree> tree = trace::flameTree(counts, {});
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->idle_threads, 1u);
  for (const std::string& name : tree->names) EXPECT_FALSE(name.starts_with("sleeper")) << "an idle thread";
}

TEST_P(SampledPython, RecursionIsOneCall) {
  const auto child = startPython(python(), std::string("def f(n):\n"
                                                       "  if n: return f(n - 1) + f(n - 1)\n"
                                                       "  return 1\n") +
                                               kReady + "while True: f(10)\n");
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] { return samplesOf(sampling.counts(), "f", StackCounts::on_cpu) >= 100; });
  const Result<FlameTree> tree = trace::flameTree(sampling.counts(), {});
  ASSERT_TRUE(tree);
  // Until Python 3.10 a frame that is just being left can seem to have no caller.
  uint64_t below_module = 0, all = 0;
  size_t calls = 0;
  for (const trace::FlameNode& n : tree->nodes) {
    if (tree->names[n.name] != "f (<string>)") continue;
    all += n.all();
    if (tree->names[tree->nodes[n.parent].name] != "<module> (<string>)") continue;
    ++calls;
    below_module += n.all();
  }
  EXPECT_EQ(calls, 1u);
  EXPECT_GE(below_module, all * 9 / 10);
  for (const FunctionTime& f : trace::functionTimes(*tree))
    EXPECT_LE(f.total[0] + f.total[1], tree->root().all()) << tree->names[f.name];
}

TEST_P(SampledPython, AProcessThatEndsKeepsItsSamples) {
  const auto child = startPython(python(), std::string(kReady) + "while True: pass\n");
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] {
    if (sampling.counts().processes[0].looks == 20) child->signal(SIGKILL);
    return false;
  });
  EXPECT_TRUE(sampling.processes()[0].ended);
  EXPECT_GE(sampling.counts().samples(), 20u);
  EXPECT_LT(sampling.counts().seconds, 29);
}

std::string anyPython() { return pythons().empty() ? "" : pythons().rbegin()->second; }

TEST(Sampling, AProcessThatBecomesAnotherProgram) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  TempDir dir;
  const auto child =
      startPython(anyPython(), "import os, time\n" + std::string(kReady) + "while not os.path.exists('" + (dir / "go") +
                                   "'): time.sleep(0.001)\n"
                                   "os.execv(sys.executable, [sys.executable, '-c', 'def after():\\n  "
                                   "while True: pass\\nafter()'])\n");
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] {
    if (sampling.counts().processes[0].looks == 5) writeFile(dir / "go", "");
    return samplesOf(sampling.counts(), "after", StackCounts::on_cpu) > 0;
  });
  EXPECT_GT(samplesOf(sampling.counts(), "after", StackCounts::on_cpu), 0u);
  EXPECT_FALSE(sampling.processes()[0].ended);
}

TEST(Sampling, CodeThatIsMadeAndThrownAwayKeepsItsNames) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(anyPython(), std::string(kReady) +
                                                  "i = 0\n"
                                                  "while True:\n"
                                                  "  i += 1\n"
                                                  "  space = {}\n"
                                                  "  name = 'f%d' % (i % 1000)\n"
                                                  "  exec(compile('def ' + name + '():\\n  for j in range(20000): pass'"
                                                  ", name + '.py', 'exec'), space)\n"
                                                  "  space[name]()\n");
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] { return sampling.counts().processes[0].looks >= 300; });
  size_t named = 0;
  const StackCounts& counts = sampling.counts();
  for (size_t f = 0; f < counts.table.frames(); ++f) {
    const std::string& text = counts.table.text(static_cast<uint32_t>(f));
    if (!text.starts_with('f')) continue;
    ++named;
    const std::string function = text.substr(0, text.find(' '));
    EXPECT_TRUE(text.starts_with(function + " (" + function + ".py")) << text;
  }
  EXPECT_GT(named, 20u);
}

TEST(Sampling, HundredsOfThreads) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(anyPython(), std::string("import threading\n"
                                                          "b = threading.Barrier(301)\n"
                                                          "def worker():\n"
                                                          "  b.wait()\n"
                                                          "  threading.Event().wait()\n"
                                                          "for i in range(300):\n"
                                                          "  threading.Thread(target=worker, daemon=True).start()\n"
                                                          "b.wait()\n") +
                                                  kReady + "while True: pass\n");
  Sampling sampling(fast());
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] { return sampling.counts().processes[0].looks >= 20; });
  const StackCounts& counts = sampling.counts();
  EXPECT_EQ(counts.threads.size(), 301u);
  EXPECT_EQ(counts.samples() + sampling.processes()[0].threads_missed, 301 * counts.processes[0].looks);
  const Result<FlameTree> tree = trace::flameTree(counts, {.idle = true});
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->idle_threads, 0u);
}

TEST(Sampling, NativeFramesBetweenThoseOfPython) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(
      anyPython(), std::string("import time\n") + kReady + "def nap():\n  while True: time.sleep(0.001)\nnap()\n");
  if (const Result<Stacks> s = backtrace(child->pid(), {.native = true}); !s || !s->notes.empty())
    GTEST_SKIP() << "no native frames here";
  SamplingOptions options = fast();
  options.native = true;
  Sampling sampling(options);
  ASSERT_TRUE(sampling.add(child->pid(), {}, "here").ok());
  sampleUntil(sampling, [&] { return sampling.counts().processes[0].looks >= 30; });
  bool found = false;
  for (const auto& [key, count] : sampling.counts().counts) {
    const std::string text = sampling.counts().table.textOf(StackCounts::stackOf(key));
    const size_t nap = text.find(";nap ("), sleep = text.find("time_sleep [");
    found |= nap != std::string::npos && sleep != std::string::npos && nap < sleep;
  }
  EXPECT_TRUE(found);
}

// Being stopped makes a thread run for a moment; that alone is no reason to stop it again.
TEST(Sampling, AThreadThatWaitsIsStoppedOnce) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(anyPython(), std::string("import time\n") + kReady + "time.sleep(1000)\n");
  trace::StackTable table;
  const auto sampler = StackSampler::open(child->pid(), true, table);
  if (!sampler || !(*sampler)->note().empty()) GTEST_SKIP() << "no native frames here";
  const TaskActivity thread(child->pid(), child->pid());
  const auto turns = [&] {  // how often it went to sleep
    EXPECT_TRUE(eventually([&] { return thread.waitsAt().has_value(); }));
    const std::string status = readFile("/proc/" + std::to_string(child->pid()) + "/status");
    return std::stoll(status.substr(status.find("\nvoluntary_ctxt_switches:") + 25));
  };
  std::vector<ThreadSample> samples;
  EXPECT_TRUE(eventually([&] {
    (void)turns();
    return (*sampler)->look(samples) == StackSampler::Outcome::looked && samples.size() == 1 && !*samples[0].on_cpu;
  }));
  const int64_t before = turns();
  const uint32_t stack = samples[0].stack;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ((*sampler)->look(samples), StackSampler::Outcome::looked);
    EXPECT_EQ(samples.at(0).stack, stack);
  }
  EXPECT_EQ(turns(), before);
}

TEST(Sampling, AProcessWithoutPythonHasItsNativeFrames) {
  Child child({"sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return backtrace(child.pid()).ok(); }));
  Sampling sampling(fast());
  if (Status s = sampling.add(child.pid(), {}, "here"); !s) GTEST_SKIP() << s.message();
  const auto slept = [&] {
    for (const auto& [key, count] : sampling.counts().counts)
      if (sampling.counts().table.textOf(StackCounts::stackOf(key)).find("nanosleep") != std::string::npos)
        return count.samples[StackCounts::waiting] > 0;
    return false;
  };
  sampleUntil(sampling, slept);
  EXPECT_TRUE(slept());
}

// A shell that becomes Python, as the launchers of virtual environments do.
TEST(Sampling, AProgramThatIsPythonOnlyLater) {
  if (anyPython().empty()) GTEST_SKIP() << "no Python here";
  TempDir dir;
  Child child({"sh", "-c",
               "while [ ! -e " + (dir / "go") + " ]; do sleep 0.01; done; exec " + anyPython() +
                   " -c 'def later():\n  while True: pass\nlater()'"});
  ASSERT_TRUE(eventually([&] { return backtrace(child.pid()).ok(); }));
  Sampling sampling(fast());
  if (Status s = sampling.add(child.pid(), {}, "here"); !s) GTEST_SKIP() << s.message();
  sampleUntil(sampling, [&] {
    if (sampling.counts().processes[0].looks == 2) writeFile(dir / "go", "");
    return samplesOf(sampling.counts(), "later", StackCounts::on_cpu) > 0;
  });
  EXPECT_GT(samplesOf(sampling.counts(), "later", StackCounts::on_cpu), 0u);
  EXPECT_FALSE(sampling.processes()[0].python_version.empty());
}

TEST(Sampling, NoSuchProcess) {
  Sampling sampling(fast());
  EXPECT_EQ(sampling.add(4194304, {}, "here").message(), "no process 4194304");
  EXPECT_EQ(sampling.processes()[0].problem, "no process 4194304");
}

}  // namespace
}  // namespace tracesmith::test
