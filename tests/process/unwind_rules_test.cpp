// Rules kept from the unwind tables lead through the same frames as libdw, which interprets the tables anew each time.
#include <signal.h>

#include "process/stopped.hpp"
#include "process/unwind.hpp"
#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

class UnwindingByRules : public testing::Test {
 protected:
  void SetUp() override {
    if (!Unwinder::create(::getpid(), *modules(::getpid()))) GTEST_SKIP() << "no libdw here";
    if (pythons().empty()) GTEST_SKIP() << "no Python here";
  }
  /// All threads of the process, `looks` times. Returns how many frames the deepest had.
  static size_t compare(pid_t pid, int looks) {
    const Result<std::vector<Module>> mapped = modules(pid);
    auto rules = Unwinder::create(pid, *mapped, {.rules = true});
    auto tables = Unwinder::create(pid, *mapped);
    EXPECT_TRUE(mapped && rules && tables);
    size_t deepest = 0;
    for (int i = 0; i < looks; ++i) {
      const Result<std::vector<Snapshot>> all = snapshots(pid, tasks(pid), [](size_t) {});
      EXPECT_TRUE(all) << all.status().message();
      if (!all) return 0;
      for (const Snapshot& s : *all) {
        if (!s.taken) continue;
        bool complete = false, complete_too = false;
        const std::vector<uint64_t> expected = (*tables)->walk(s, complete);
        EXPECT_EQ((*rules)->walk(s, complete_too), expected);
        EXPECT_EQ(complete_too, complete);
        deepest = std::max(deepest, expected.size());
        // A stack of which only a part was copied.
        Snapshot part = s;
        part.stack.resize(part.stack.size() / 2);
        const std::vector<uint64_t> cut = (*tables)->walk(part, complete);
        EXPECT_EQ((*rules)->walk(part, complete_too), cut);
        EXPECT_EQ(complete_too, complete);
      }
    }
    return deepest;
  }
};

TEST_F(UnwindingByRules, OfAProgramThatIsBusyInManyFunctions) {
  const auto child = startPython(pythons().rbegin()->second,
                                 std::string("import json, re, threading, zlib\n"
                                             "def wait(n): return wait(n - 1) if n else threading.Event().wait()\n"
                                             "threading.Thread(target=wait, args=(9,), daemon=True).start()\n") +
                                     kReady +
                                     "while True:\n"
                                     "  sorted(range(50), key=lambda x: -x)\n"
                                     "  json.loads(json.dumps({'a': [1, 2.5, 'x' * 40]}))\n"
                                     "  re.sub('a+b', lambda m: m[0], 'aaab' * 20)\n"
                                     "  zlib.compress(b'abc' * 300)\n");
  EXPECT_GT(compare(child->pid(), 100), 10u);
}

TEST_F(UnwindingByRules, OfAHandlerOfASignal) {
  const auto child =
      startPython(pythons().rbegin()->second,
                  std::string("import ctypes, signal, os\n"
                              "libc = ctypes.CDLL(None)\n"
                              "libc.signal(signal.SIGUSR1, ctypes.cast(libc.pause, ctypes.c_void_p))\n") +
                      kReady + "os.kill(os.getpid(), signal.SIGUSR1)\n");
  EXPECT_TRUE(eventually([&] { return tasks(child->pid()).at(0).state == 'S'; }));
  EXPECT_GT(compare(child->pid(), 3), 10u);
}

}  // namespace
}  // namespace tracesmith::test
