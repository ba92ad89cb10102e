// The variables of Python's functions, read from outside.
#include <map>

#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class Locals : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Locals);
INSTANTIATE_TEST_SUITE_P(Versions, Locals, testing::ValuesIn(pythonVersions()), nameOfVersion);

constexpr const char* kProgram = R"(import time
class Model: pass
def work(n, data, api_key, tokens):
  half, big, less, zero = 0.5, 12345678901234567890123, -7, 0
  yes, nothing, text, raw = True, None, "it's\n€", b'ab\x00'
  pair, empty, nested, table = (1,), [], [[1, [2, [3, [4]]]]], {'a': 1, 'b': 2}
  model, many, long_text, url = Model(), list(range(100)), 'x' * 5000, 'https://u:secret@host'
  def inner():
    return n
  later = None
  del later
  sys.stdout.write('ready'); sys.stdout.flush()
  time.sleep(1000)
work(3, [1.5, 'a'], 'abc' + 'def', 17)
)";

TEST_P(Locals, HaveTheirValues) {
  const auto child = startPython(pythons().at(GetParam()), kProgram);
  const ThreadStack t = waitForStack(
      child->pid(), [](const ThreadStack& s) { return !s.frames.empty() && s.frames[0].function == "work"; },
      {.locals = true});
  ASSERT_EQ(t.frames.size(), 2u);
  std::map<std::string, std::string> found;
  for (const model::FrameVariable& v : t.frames[0].locals) found[v.name] = v.value;
  const std::map<std::string, std::string> expected = {{"n", "3"},
                                                       {"data", "[1.5, 'a']"},
                                                       {"api_key", "***"},
                                                       {"tokens", "17"},
                                                       {"half", "0.5"},
                                                       {"big", "12345678901234567890123"},
                                                       {"less", "-7"},
                                                       {"zero", "0"},
                                                       {"yes", "True"},
                                                       {"nothing", "None"},
                                                       {"text", "'it\\'s\\n€'"},
                                                       {"raw", "b'ab\\x00'"},
                                                       {"pair", "(1,)"},
                                                       {"empty", "[]"},
                                                       {"nested", "[[1, [2, list of 2 items]]]"},
                                                       {"table", "dict of 2 items"},
                                                       {"model", "<Model>"},
                                                       {"many", "[0, 1, 2, 3, 4, 5, 6, 7, … 100 in all]"},
                                                       {"long_text", "str of 5000 characters"},
                                                       {"url", "***"},
                                                       {"inner", "<function>"}};
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(t.frames[1].locals.empty()) << "variables of a module are in no frame";
}

TEST_P(Locals, OfABusyProgramEndAndStayBounded) {
  const auto child = startPython(pythons().at(GetParam()),
                                 "def deep(n, text):\n"
                                 "  return text * (n % 50) if n == 0 else deep(n - 1, text + 'y')\n" +
                                     std::string(kReady) + "while True:\n  deep(300, 'x')\n");
  for (int i = 0; i < 50; ++i) {
    const Result<Stacks> stacks = backtrace(child->pid(), {.locals = true});
    ASSERT_TRUE(stacks) << stacks.status().message();
    for (const Frame& f : stacks->threads.at(0).frames)
      for (const model::FrameVariable& v : f.locals) {
        EXPECT_TRUE(v.name == "n" || v.name == "text") << v.name;
        EXPECT_LE(v.value.size(), 1000u);
      }
  }
  EXPECT_TRUE(child->running());
}

TEST(LocalsCommand, ShowsThemBelowTheirFrames) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child = startPython(pythons().begin()->second, kProgram);
  const std::string pid = std::to_string(child->pid());
  const Output plain = tracesmith({"backtrace", pid}), with = tracesmith({"backtrace", "--locals", pid});
  EXPECT_EQ(plain.out.find("      half = "), std::string::npos);
  EXPECT_NE(with.out.find("      half = 0.5\n"), std::string::npos) << with.out << with.err;
  EXPECT_EQ(with.out.find("abcdef"), std::string::npos) << "a secret is shown";
  EXPECT_NE(tracesmith({"backtrace", "--json", "--locals", pid}).out.find(R"({"name":"half","value":"0.5"})"),
            std::string::npos);
}

}  // namespace
}  // namespace tracesmith::test
