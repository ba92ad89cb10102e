// Python stacks of real processes, read from outside.
#include <signal.h>

#include <map>
#include <sstream>

#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class EveryPython : public testing::TestWithParam<std::string> {
 protected:
  const std::string& python() const { return pythons().at(GetParam()); }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryPython);
INSTANTIATE_TEST_SUITE_P(Versions, EveryPython, testing::ValuesIn(pythonVersions()), nameOfVersion);

std::string last(const std::string& name) { return name.substr(name.rfind('.') + 1); }

TEST_P(EveryPython, FramesHaveTheirNamesAndLines) {
  const auto child = startPython(python(),
                                 "import time\n"           // line 2
                                 "class Trainer:\n"        // 3
                                 "  def step(self, n):\n"  // 4
                                 "    if n == 0:\n"        // 5
                                 "      wait()\n"          // 6
                                 "    self.step(\n"        // 7
                                 "      n - 1)\n"          // 8
                                 "def wait():\n"           // 9
                                 "  sys.stdout.write('ready'); sys.stdout.flush()\n"
                                 "  time.sleep(1000)\n"  // 11
                                 "Trainer().step(2)\n");
  const ThreadStack t = waitForStack(child->pid(), [](const ThreadStack& s) {
    return s.frames.size() == 4 && s.frames[0].line == 11 && !s.changed && s.holds_gil == false;
  });
  ASSERT_EQ(t.frames.size(), 4u);
  EXPECT_EQ(t.frames[0].function, "wait");
  EXPECT_EQ(last(t.frames[1].function), "step");
  EXPECT_EQ(t.frames[1].line, 6);
  EXPECT_EQ(last(t.frames[2].function), "step");
  EXPECT_EQ(t.frames[2].line, 7);
  EXPECT_EQ(t.frames[2].more, 1u);
  EXPECT_EQ(t.frames[3].function, "<module>");
  EXPECT_EQ(t.frames[3].line, 12);
  EXPECT_EQ(t.frames[3].file, "<string>");
  EXPECT_EQ(t.tid, child->pid());
  EXPECT_FALSE(t.truncated || t.damaged || t.changed);
  EXPECT_EQ(backtrace(child->pid())->python_version.substr(0, GetParam().size()), GetParam());
}

TEST_P(EveryPython, CodeInCThatHoldsTheGil) {
  const auto child = startPython(python(),
                                 "import ctypes, threading\n"
                                 "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                                 "def stuck():\n" +
                                     ("  " + std::string(kReady)) +
                                     "  ctypes.PyDLL(None).sleep(1000)\n"
                                     "stuck()\n");
  const ThreadStack t = waitForStack(child->pid(), [](const ThreadStack& s) {
    return s.holds_gil.value_or(false) && s.state == "S" && !s.frames.empty() && s.frames[0].line == 6;
  });
  EXPECT_EQ(t.frames[0].function, "stuck");
  const Result<Stacks> all = backtrace(child->pid());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->threads.size(), 2u);
  EXPECT_EQ(all->threads[1].holds_gil, false);
  EXPECT_EQ(all->threads[1].frames.back().function.substr(all->threads[1].frames.back().function.size() - 10),
            "_bootstrap");
}

TEST_P(EveryPython, AStoppedProcess) {
  const auto child = startPython(python(), std::string("def spin():\n  ") + kReady + "  while True: pass\nspin()\n");
  child->signal(SIGSTOP);
  const ThreadStack t = waitForStack(child->pid(), [](const ThreadStack& s) { return s.state == "T"; });
  ASSERT_FALSE(t.frames.empty());
  EXPECT_EQ(t.frames.back().function, "<module>");
  EXPECT_FALSE(t.changed);
}

TEST_P(EveryPython, AHundredThousandFrames) {
  const auto child = startPython(python(), std::string("import threading, time\n"
                                                       "sys.setrecursionlimit(200000)\n"
                                                       "threading.stack_size(1 << 30)\n"
                                                       "def f(n):\n"
                                                       "  if n == 0:\n    ") +
                                               kReady +
                                               "    time.sleep(1000)\n"
                                               "  f(n - 1)\n"
                                               "threading.Thread(target=f, args=(100000,)).start()\n");
  const Result<Stacks> stacks = backtrace(child->pid());
  ASSERT_TRUE(stacks);
  ASSERT_EQ(stacks->threads.size(), 2u);
  const ThreadStack& t = stacks->threads[1];
  ASSERT_GE(t.frames.size(), 2u);
  EXPECT_EQ(t.frames[1].function, "f");
  EXPECT_EQ(t.frames[1].more, 99999u);
  EXPECT_FALSE(t.truncated || t.changed || t.damaged);
}

TEST_P(EveryPython, TwoHundredThreadsEachWithItsId) {
  const auto child = startPython(python(), std::string("import threading\n"
                                                       "b = threading.Barrier(201)\n"
                                                       "def worker():\n"
                                                       "  b.wait()\n"
                                                       "  threading.Event().wait()\n"
                                                       "for i in range(200):\n"
                                                       "  threading.Thread(target=worker, daemon=True).start()\n"
                                                       "b.wait()\n") +
                                               kReady + "threading.Event().wait()\n");
  const Result<Stacks> stacks = backtrace(child->pid());
  ASSERT_TRUE(stacks);
  ASSERT_EQ(stacks->threads.size(), 201u);
  size_t workers = 0;
  for (const ThreadStack& t : stacks->threads) {
    EXPECT_TRUE(t.tid && t.python);
    for (const Frame& f : t.frames) workers += f.function == "worker";
  }
  EXPECT_EQ(workers, 200u);
}

// What the interpreter says of itself at a moment at which all threads stand still.
constexpr const char* kTellsItself = R"(import os, threading, time
there, never = [], threading.Lock()
never.acquire()
def stand():
    there.append(1); never.acquire()
def recursion(n):
    if n: return recursion(n - 1)
    stand()
def generator():
    yield 1
    stand()
class Job:
    def __call__(self): self.step()
    def step(self): sorted([2, 1], key=lambda x: stand())
    @classmethod
    def made(cls): list(map(cls.inner, [1]))
    @staticmethod
    def inner(x):
        with Held(): pass
class Held:
    def __enter__(self):
        try:
            raise ValueError
        except ValueError:
            stand()
    def __exit__(self, *a): pass
def decorated(f):
    def around(*a, **k):
        return f(*a, **k)
    return around
@decorated
def many_lines(a,
               b):
    return [
        1,
        stand(),
        2]
def written():
    exec(compile('\n\nstand()', 'of a text', 'exec'), globals())
def coroutine():
    import asyncio
    async def inner(): stand()
    async def outer(): await inner()
    asyncio.run(outer())
ways = [lambda: recursion(40), lambda: [x for x in generator()], Job(), Job.made, lambda: many_lines(1, b=2), written, coroutine]
for way in ways: threading.Thread(target=way, daemon=True).start()
while len(there) < len(ways): time.sleep(0.001)
ids = {t.ident: t.native_id for t in threading.enumerate()}
def told(mine):
    text = ''
    for ident, f in sys._current_frames().items():
        f = mine if ident == threading.get_ident() else f
        while f:
            c = f.f_code
            text += '%d %s (%s:%d)\n' % (ids[ident], getattr(c, 'co_qualname', c.co_name), c.co_filename, f.f_lineno)
            f = f.f_back
    return text + 'ready\n'
time.sleep(0.01); os.write(1, told(sys._getframe()).encode()) and time.sleep(1000)
)";

TEST_P(EveryPython, EveryFrameOfEveryThreadIsWhatTheInterpreterSays) {
  const auto child = startPython(python(), kTellsItself);
  std::string expected = child->out();
  expected.resize(expected.find("ready"));
  for (const BacktraceOptions& options : {BacktraceOptions{}, BacktraceOptions{.native = true}}) {
    std::map<int64_t, std::string> told, read;
    std::istringstream lines(expected);
    for (std::string line; std::getline(lines, line);) told[std::stoll(line)] += line.substr(line.find(' ') + 1) + "\n";
    EXPECT_EQ(told.size(), 8u);
    EXPECT_TRUE(eventually([&] {
      const Result<Stacks> stacks = backtrace(child->pid(), options);
      read.clear();
      for (const ThreadStack& t : stacks ? stacks->threads : std::vector<ThreadStack>())
        for (const Frame& f : t.frames)
          for (uint64_t i = 0; f.python && i <= f.more; ++i)
            read[t.tid.value_or(0)] += f.function + " (" + f.file + ":" + std::to_string(f.line.value_or(0)) + ")\n";
      return read == told;
    }));
    EXPECT_EQ(read, told);
  }
}

TEST_P(EveryPython, NamesBeyondAscii) {
  const auto child = startPython(python(), std::string("import time\n"
                                                       "def größe(): 漢字()\n"
                                                       "def 漢字():\n  ") +
                                               kReady + "  time.sleep(1000)\ngröße()\n");
  const ThreadStack t = waitForStack(child->pid(), [](const ThreadStack& s) { return s.frames.size() == 3; });
  EXPECT_EQ(t.frames[0].function, "漢字");
  EXPECT_EQ(t.frames[1].function, "größe");
}

// A stack that was read while it changed says so, or it is one that the program really has.
TEST_P(EveryPython, ABusyProcessGivesStacksThatExist) {
  const auto child = startPython(python(), std::string(kReady) +
                                               "def a(): c()\n"
                                               "def b(): d()\n"
                                               "def c(): pass\n"
                                               "def d(): pass\n"
                                               "while True:\n"
                                               "  a()\n"
                                               "  b()\n");
  size_t whole = 0;
  for (int i = 0; i < 200; ++i) {
    const Result<Stacks> stacks = backtrace(child->pid());
    ASSERT_TRUE(stacks);
    const ThreadStack& t = stacks->threads[0];
    if (t.changed || t.damaged) continue;
    ++whole;
    std::string names;
    for (const Frame& f : t.frames) names = f.function + " " + names;
    EXPECT_TRUE(names == "<module> " || names == "<module> a " || names == "<module> a c " || names == "<module> b " ||
                names == "<module> b d ")
        << names;
  }
  EXPECT_GT(whole, 0u);
}

/// The only child of a process.
std::optional<pid_t> childOf(pid_t pid) {
  const std::string id = std::to_string(pid), text = readFile("/proc/" + id + "/task/" + id + "/children");
  return text.empty() ? std::nullopt : std::optional<pid_t>(std::stoi(text));
}

// There it knows its threads by other numbers than this machine does.
TEST_P(EveryPython, InAPidNamespaceOfItsOwn) {
  if (run({"unshare", "--pid", "--fork", "--mount-proc", "true"}).rc != 0) GTEST_SKIP() << "no PID namespaces here";
  Child outer({"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", python(), "-c",
               "import sys, threading\n"
               "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
               "sys.stdout.write('ready'); sys.stdout.flush()\n"
               "threading.Event().wait()\n"});
  ASSERT_TRUE(eventually([&] { return outer.out() == "ready"; })) << outer.err();
  const std::optional<pid_t> inner = childOf(outer.pid());
  ASSERT_TRUE(inner);
  const Result<Stacks> stacks = backtrace(*inner);
  ASSERT_TRUE(stacks) << stacks.status().message();
  ASSERT_EQ(stacks->threads.size(), 2u);
  for (const ThreadStack& t : stacks->threads) {
    EXPECT_TRUE(t.python);
    EXPECT_TRUE(t.tid && exists("/proc/" + std::to_string(*inner) + "/task/" + std::to_string(*t.tid)));
    EXPECT_FALSE(t.frames.empty());
  }
}

TEST(Backtrace, AProcessThatVanishes) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  for (int i = 0; i < 5; ++i) {
    Child child({pythons().begin()->second, "-c",
                 std::string("import sys\n") + kReady + "for i in range(100000 * " + std::to_string(i) + "): pass\n"});
    ASSERT_TRUE(eventually([&] { return child.out() == "ready"; }));
    while (true) {
      const Result<Stacks> stacks = backtrace(child.pid());
      if (!stacks) {
        EXPECT_EQ(stacks.status().code(), Code::kNotFound) << stacks.status().message();
        break;
      }
    }
  }
}

TEST(Backtrace, NoSuchProcessIsOneLine) {
  const Output out = tracesmith({"backtrace", "4194304"});
  EXPECT_EQ(out.rc, 1);
  EXPECT_EQ(out.err, "tracesmith: no process 4194304\n");
  EXPECT_EQ(tracesmith({"backtrace", "x"}).rc, 2);
  EXPECT_EQ(tracesmith({"backtrace"}).rc, 2);
}

TEST(Backtrace, AnotherUsersProcessIsRefusedWithAReason) {
  Child child({"sleep", "1000"});
  const Output out =
      run({"setpriv", "--reuid=65534", "--clear-groups", TRACESMITH_BIN, "backtrace", std::to_string(child.pid())});
  if (out.rc == 127 || out.err.find("tracesmith") == std::string::npos) GTEST_SKIP() << out.err;
  EXPECT_EQ(out.rc, 1);
  EXPECT_NE(out.err.find("is not permitted: run as "), std::string::npos) << out.err;
}

TEST(Backtrace, JsonOfAProcess) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(pythons().begin()->second,
                                 std::string("import time\n") + kReady + "time.sleep(1000)\n", {{"RANK", "3"}});
  const Output out = tracesmith({"backtrace", "--json", std::to_string(child->pid())});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_NE(out.out.find("\"rank\":3,"), std::string::npos) << out.out;
  EXPECT_NE(out.out.find(R"("python":true,"function":"<module>","file":"<string>","line":)"), std::string::npos)
      << out.out;
}

}  // namespace
}  // namespace tracesmith::test
