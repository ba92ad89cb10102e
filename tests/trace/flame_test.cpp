// Flame graphs of stacks that are known.
#include "trace/export/flame.hpp"

#include "support/process.hpp"

#include <gtest/gtest.h>

namespace tracesmith::trace {
namespace {

/// Rank 0 and rank 1 with a thread each, and an idle thread of rank 0.
StackCounts job() {
  StackCounts counts;
  counts.rate = 100;
  counts.seconds = 1;
  for (int64_t rank = 0; rank < 2; ++rank) {
    StackCounts::Process& p = counts.processes.emplace_back();
    p.rank = rank;
    p.pid = 100 + rank;
    p.looks = 100;
    counts.threads.push_back({static_cast<size_t>(rank), 100 + rank, "main"});
  }
  counts.threads.push_back({0, 110, "pool"});
  const auto add = [&](uint32_t thread, const std::string& stack, StackCounts::State state, uint64_t samples) {
    counts.counts[StackCounts::key(thread, counts.table.parse(stack))].samples[state] += samples;
  };
  add(0, "<module> (train.py:9);step (train.py:5);mm (/usr/lib/python3.11/site-packages/torch/x.py:1)",
      StackCounts::on_cpu, 60);
  add(0, "<module> (train.py:9);step (train.py:6);wait (/usr/lib/python3.11/threading.py:2)", StackCounts::waiting, 40);
  add(1, "<module> (train.py:9);step (train.py:5);mm (/usr/lib/python3.11/site-packages/torch/x.py:1)",
      StackCounts::on_cpu, 20);
  add(1, "<module> (train.py:9);step (train.py:6);wait (/usr/lib/python3.11/threading.py:2)", StackCounts::waiting, 80);
  add(2, "run (pool.py:1)", StackCounts::waiting, 100);
  return counts;
}

FlameTree treeOf(const FlameOptions& options) {
  Result<FlameTree> tree = flameTree(job(), options);
  EXPECT_TRUE(tree) << tree.status().message();
  return tree ? std::move(*tree) : FlameTree();
}

TEST(Flame, ATextIsReadBackAsItWasWritten) {
  StackTable table;
  const std::string text = pythonFrame("<module>", "/a b/train;1.py", 7) + ";" + pythonFrame("f", "x.py", {}) + ";" +
                           nativeFrame("std::map<int, int>::find(int)", "/usr/lib/libx.so", 4) + ";" +
                           nativeFrame("", "/lib/liby.so", 255);
  EXPECT_EQ(text, "<module> (/a b/train,1.py:7);f (x.py);std::map<int, int>::find(int) [libx.so];? [liby.so+0xff]");
  EXPECT_EQ(nativeFrame("", "", 4711), "? [unknown]") << "code that was made while the program ran";
  const uint32_t stack = table.parse(text);
  EXPECT_EQ(table.textOf(stack), text);
  EXPECT_EQ(table.framesOf(stack).size(), 4u);
  EXPECT_EQ(table.parse(text), stack);
  EXPECT_EQ(table.parse(""), StackTable::kNone);
}

TEST(Flame, CollapsedStacksAreMergedOverRanks) {
  EXPECT_EQ(collapsedStacks(treeOf({})).size(),
            std::string("<module> (train.py);step (train.py);mm (torch/x.py) 80\n"
                        "<module> (train.py);step (train.py);wait (threading.py) 120\n")
                .size());
  const std::string text = collapsedStacks(treeOf({}));
  EXPECT_NE(text.find("<module> (train.py);step (train.py);mm (torch/x.py) 80\n"), std::string::npos) << text;
  EXPECT_NE(text.find("<module> (train.py);step (train.py);wait (threading.py) 120\n"), std::string::npos) << text;
}

TEST(Flame, ChoicesLeaveOutAndKeepApart) {
  EXPECT_EQ(treeOf({}).idle_threads, 1u);
  EXPECT_EQ(treeOf({}).root().all(), 200u);
  EXPECT_EQ(treeOf({.idle = true}).root().all(), 300u);
  EXPECT_EQ(treeOf({.only = StackCounts::on_cpu}).root().all(), 80u);
  EXPECT_EQ(treeOf({.ranks = {1}}).root().all(), 100u);
  EXPECT_NE(collapsedStacks(treeOf({.per_rank = true}))
                .find("rank 1;<module> (train.py);step (train.py);mm (torch/x.py) 20\n"),
            std::string::npos);
  EXPECT_NE(collapsedStacks(treeOf({.per_thread = true, .idle = true})).find("thread 110 pool;run (pool.py) 100\n"),
            std::string::npos);
  EXPECT_NE(collapsedStacks(treeOf({.lines = true})).find("step (train.py:6);"), std::string::npos);
  EXPECT_EQ(flameTree(job(), {.ranks = {7}}).status().message(), "there are no samples of rank 7");
  EXPECT_EQ(flameTree(job(), {.compare = {{0, 7}}}).status().message(), "there are no samples of rank 7");
}

TEST(Flame, TwoRanksAreCompared) {
  const FlameTree tree = treeOf({.compare = {{0, 1}}});
  EXPECT_EQ(tree.looks[0], 100);
  const std::string text = collapsedStacks(tree);
  EXPECT_NE(text.find(";wait (threading.py) 40 80\n"), std::string::npos) << text;
  const std::string svg = flameSvg(tree, {"t", "", ""});
  EXPECT_NE(svg.find("class=\"r\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"b\""), std::string::npos);
}

TEST(Flame, FunctionsHaveTheirOwnTimeAndThatOfWhatTheyCall) {
  const FlameTree tree = treeOf({});
  for (const FunctionTime& f : functionTimes(tree)) {
    if (tree.names[f.name] != "step (train.py)") continue;
    EXPECT_EQ(f.self[0] + f.self[1], 0u);
    EXPECT_EQ(f.total[0], 80u);
    EXPECT_EQ(f.total[1], 120u);
  }
}

TEST(Flame, FilesAreWellFormedWhateverNamesThereAre) {
  StackCounts counts = job();
  const uint32_t bad = counts.table.parse(std::string("a<b>&\"'\x01]]> (x\xff.py:1);</svg> (<script>.py:2)"));
  counts.counts[StackCounts::key(0, bad)].samples[StackCounts::on_cpu] = 50;
  const Result<FlameTree> tree = flameTree(counts, {});
  ASSERT_TRUE(tree);
  const FlameCaption caption{"<&>", "]]>", "\""};
  if (test::run({"python3", "-c", "import xml.dom.minidom"}).rc != 0) GTEST_SKIP() << "no Python here";
  const test::Output xml =
      test::run({"python3", "-c",
                 "import sys, xml.dom.minidom as m\n"
                 "d = m.parseString(sys.stdin.buffer.read())\n"
                 "f = [e for e in d.getElementsByTagName('svg') if e.getAttribute('class') == 'f']\n"
                 "print(len(f), f[0].getAttribute('width'))"},
                flameSvg(*tree, caption));
  EXPECT_EQ(xml.rc, 0) << xml.err;
  EXPECT_EQ(xml.out, "7 100%\n");
  const test::Output json = test::run({"python3", "-c",
                                       "import sys, json\n"
                                       "d = json.load(sys.stdin.buffer)\n"
                                       "n = len(d['shared']['frames'])\n"
                                       "assert all(f < n for p in d['profiles'] for s in p['samples'] for f in s)\n"
                                       "print([(p['name'], sum(p['weights']), p['endValue']) for p in d['profiles']])"},
                                      speedscope(*tree, caption));
  EXPECT_EQ(json.rc, 0) << json.err;
  EXPECT_EQ(json.out, "[('all', 250, 250), ('on CPU', 130, 130), ('waiting', 120, 120)]\n");
}

}  // namespace
}  // namespace tracesmith::trace
