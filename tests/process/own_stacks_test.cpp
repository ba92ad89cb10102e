// Stacks of a process whose memory nobody may read: the probe in it tells them.
#include "process/own_stacks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

constexpr const char* kNobody = "65534";

TEST(OwnStacks, AreReadAsTheyWereWritten) {
  Stacks stacks;
  stacks.python_version = "3.11.2";
  stacks.notes = {"a note"};
  stacks.threads.resize(2);
  stacks.threads[0].tid = 7;
  stacks.threads[0].name = "py\tthon";
  stacks.threads[0].python = true;
  stacks.threads[0].holds_gil = true;
  for (const char* function : {"step", "é"}) {
    Frame& f = stacks.threads[0].frames.emplace_back();
    f.python = true;
    f.function = function;
    f.file = "/a b/train.py";
  }
  stacks.threads[0].frames[0].line = 12;
  stacks.threads[0].frames[0].more = 3;
  stacks.threads[1].truncated = true;
  const Result<Stacks> read = parseOwnStacks(ownStacksText(stacks));
  ASSERT_TRUE(read) << read.status().message();
  stacks.threads[0].name = "py thon";
  EXPECT_EQ(*read, stacks);
}

TEST(OwnStacks, NonsenseIsBounded) {
  EXPECT_FALSE(parseOwnStacks(""));
  EXPECT_FALSE(parseOwnStacks("something else\n"));
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = "tracesmith stacks 1\nt\t1\tn\t1\t1\t0\t0\t0\nf\t1\t2\tg\tfile\np\t3.11\nn\tx\n";
    for (int k = 0; k < 5; ++k) text[20 + random() % (text.size() - 20)] = static_cast<char>(random());
    (void)parseOwnStacks(text);
  }
}

// A process that is not dumpable may be read by root only, not even by its own user.
class Unreadable : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 || run({"setpriv", "--reuid", kNobody, "--clear-groups", "true"}).rc != 0)
      GTEST_SKIP() << "needs root and setpriv";
    if (!exists("/usr/bin/python3") ||
        run({"setpriv", "--reuid", kNobody, "--clear-groups", "/usr/bin/python3", "-c", "import ctypes"}).rc != 0)
      GTEST_SKIP() << "no Python here for other users";
    if (run({"setpriv", "--reuid", kNobody, "--clear-groups", TRACESMITH_BIN, "--version"}).rc != 0)
      GTEST_SKIP() << "the build folder is closed to other users";
    ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
    ASSERT_EQ(::mkdir((dir_ / "rings").c_str(), 0700), 0);
    ASSERT_EQ(::chown((dir_ / "rings").c_str(), 65534, 65534), 0);
  }
  std::unique_ptr<Child> start(const std::string& rest, bool probe = true) const {
    const std::string program = "import ctypes, sys, threading, time\n" +
                                std::string(probe ? "ts = ctypes.CDLL('" TRACESMITH_BUILD_DIR
                                                    "/lib/libtracesmith_probe.so')\nts.tracesmith_probe_start()\n"
                                                  : "") +
                                "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + rest;
    std::vector<std::string> argv = {"setpriv",          "--reuid", kNobody, "--clear-groups",
                                     "/usr/bin/python3", "-c",      program};
    auto child = std::make_unique<Child>(argv, Environment{{"TRACESMITH_DIR", dir_ / "rings"}, {"RANK", "3"}});
    EXPECT_TRUE(eventually([&] { return child->out().find("ready") != std::string::npos || !child->running(); }))
        << child->err();
    return child;
  }
  Output backtraceOf(const Child& child) const {
    return runWith({{"TRACESMITH_DIR", dir_ / "rings"}}, {"setpriv", "--reuid", kNobody, "--clear-groups",
                                                          TRACESMITH_BIN, "backtrace", std::to_string(child.pid())});
  }
  TempDir dir_;
};

constexpr const char* kInC = R"(
def stuck():
  sys.stdout.write('ready'); sys.stdout.flush()
  ctypes.PyDLL(None).sleep(1000)
def other():
  time.sleep(1000)
threading.Thread(target=other, daemon=True).start()
stuck()
)";

TEST_F(Unreadable, TheProbeTellsWhereItIsAlsoWithoutTheLockOfTheInterpreter) {
  const auto child = start(kInC);
  Output o;
  EXPECT_TRUE(eventually([&] {
    o = backtraceOf(*child);
    return o.rc == 0 && o.out.find("  stuck (<string>:") != std::string::npos;
  })) << o.out
      << o.err;
  EXPECT_NE(o.out.find("holds the GIL"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("  other (<string>:"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("note: its memory may not be read from outside"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("rank 3"), std::string::npos) << o.out;
  EXPECT_TRUE(child->running());
}

TEST_F(Unreadable, AStoppedProcessAndOneWithoutTheProbeAreOneLine) {
  const auto stopped = start(kInC);
  stopped->signal(SIGSTOP);
  Output o = backtraceOf(*stopped);
  EXPECT_EQ(o.rc, 1);
  EXPECT_NE(o.err.find("did not tell its stacks within 3 s"), std::string::npos) << o.err;
  const auto without = start(kInC, false);
  o = backtraceOf(*without);
  EXPECT_EQ(o.rc, 1);
  EXPECT_NE(o.err.find("is not permitted"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace tracesmith::test
