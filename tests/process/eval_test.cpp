// Python code in processes that run already: its answer comes back, and they go on unharmed.
#include "process/eval.hpp"

#include "attaching.hpp"
#include "process/backtrace.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class Evaluating : public Attaching {
 protected:
  void SetUp() override {
    Attaching::SetUp();
    if (pythons().empty()) GTEST_SKIP() << "no Python here";
  }
  Output eval(const Child& child, const std::string& code, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {std::to_string(child.pid()), code};
    words.insert(words.end(), more.begin(), more.end());
    return tool("eval", words);
  }
  /// A program of each kind of loop.
  std::unique_ptr<Child> python(const std::string& loop, const std::string& version = pythons().begin()->first) const {
    return startPython(pythons().at(version), "import os, threading, time\nanswer = 41\n" + std::string(kReady) + loop);
  }
  static constexpr const char* kSleeping = "while True: time.sleep(0.01)\n";
  static constexpr const char* kBusy = "while True: answer += 0\n";
};

TEST_F(Evaluating, TheValueTheOutputAndTheExceptionComeBack) {
  const auto child = python(kSleeping);
  Output o = eval(*child, "answer + 1");
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "42\n");
  o = eval(*child, "answer = 7\nfor i in range(2): print('é', i)\nanswer");
  EXPECT_EQ(o.out, "é 0\né 1\n7\n") << o.err;
  EXPECT_EQ(eval(*child, "answer").out, "7\n") << "it is the program's own variable";
  EXPECT_EQ(eval(*child, "None").out, "");
  o = eval(*child, "1 / 0");
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "File \"<eval>\", line 1") && has(o.err, "ZeroDivisionError: division by zero")) << o.err;
  EXPECT_TRUE(has(eval(*child, "if").err, "SyntaxError: invalid syntax"));
  EXPECT_EQ(eval(*child, "raise SystemExit(3)").rc, 1) << "the program does not end of it";
  o = eval(*child, "print('x')\n[1, 'a']", {"--json"});
  EXPECT_EQ(o.out, "{\"pid\":" + std::to_string(child->pid()) +
                       ",\"result\":\"[1, 'a']\",\"output\":\"x\\n\",\"exception\":null,\"truncated\":false}\n");
  EXPECT_TRUE(has(eval(*child, "'a' * 100000").err, "longer than 64 kB"));
  EXPECT_TRUE(child->running());
  EXPECT_EQ(child->out(), "ready") << "nothing of it went to the program's own output";
}

TEST_F(Evaluating, EveryPythonAndEveryLoop) {
  for (const auto& [version, path] : pythons())
    for (const char* loop : {kSleeping, kBusy}) {
      const auto child = python(loop, version);
      const Output o = eval(*child, "import sys; sys.version_info[1]");
      EXPECT_EQ(o.rc, 0) << version << loop << o.err;
      EXPECT_EQ(o.out, version.substr(2) + "\n");
      EXPECT_TRUE(child->running());
    }
}

TEST_F(Evaluating, CodeThatTakesTooLong) {
  const auto child = python(kSleeping);
  Output o = eval(*child, "while True: pass", {"--timeout", "0.3"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "TimeoutError: stopped after 0.3 s")) << o.err;
  o = eval(*child, "import time; time.sleep(1000)", {"--timeout", "0.3"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "did not end within 0.3 s") && has(o.err, "it goes on in process ")) << o.err;
  EXPECT_EQ(eval(*child, "answer").out, "41\n") << "others can still ask";
}

TEST_F(Evaluating, WhoKeepsTheInterpreterIsNamed) {
  const auto child = python("import ctypes\ndef stuck():\n  ctypes.PyDLL(None).sleep(1000)\nstuck()\n");
  ASSERT_TRUE(eventually([&] {
    const Result<Stacks> s = backtrace(child->pid());
    return s && !s->threads.empty() && s->threads[0].holds_gil.value_or(false) && s->threads[0].state == "S";
  }));
  const Output o = eval(*child, "answer", {"--timeout", "0.3"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "a thread keeps the interpreter's lock, in stuck (<string>:")) << o.err;
  EXPECT_TRUE(child->running());
}

TEST_F(Evaluating, OnlyPythonAndOnlyWhoWasNamed) {
  const auto child = work("sleeps");
  Output o = eval(*child, "1");
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "is not a Python process")) << o.err;
  expectGood(*child);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"1"}, {"x", "1"}, {"1", "2", "3"}, {"-t", "here", "1"}, {"-t", "nonsense", "1"}}) {
    o = tool("eval", wrong);
    EXPECT_EQ(o.rc, 2) << o.err;
  }
}

TEST_F(Evaluating, AttachHooksAPythonProgram) {
  const auto child = python(kSleeping);
  const Output o = attach(*child);
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "torch is hooked once the program imports it")) << o.out;
  EXPECT_EQ(eval(*child, "'_tracesmith_hooks' in sys.modules").out, "True\n");
  EXPECT_TRUE(child->running());
}

// The program has made its optimizer, its data loader and its model before.
TEST_F(Evaluating, ATrainingProgramHasStepsFromNowOn) {
  const std::string python = "/usr/bin/python3";
  if (!exists(python) || test::run({python, "-c", "import torch"}).rc != 0) GTEST_SKIP() << "no torch here";
  const auto child = startPython(python,
                                 "import time, torch\n"
                                 "model = torch.nn.Linear(8, 8)\n"
                                 "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" +
                                     std::string(kReady) +
                                     "while True:\n"
                                     "  optimizer.zero_grad()\n"
                                     "  model(torch.ones(4, 8)).sum().backward()\n"
                                     "  optimizer.step()\n"
                                     "  time.sleep(0.005)\n");
  const Output o = attach(*child);
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "note: torch is hooked: steps")) << o.out;
  size_t steps = 0;
  EXPECT_TRUE(eventually([&] {
    for (const std::string& path : ring::findRings(rings_.path()))
      if (auto reader = ring::RingReader::open(path)) {
        steps = 0;
        (*reader)->snapshot([&](uint32_t, const ring::Record& r) { steps += r.kind == ring::Kind::step; });
      }
    return steps > 10;
  })) << steps;
}

}  // namespace
}  // namespace tracesmith::test
