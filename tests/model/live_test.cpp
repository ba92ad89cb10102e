// Tables of what runs now: columns and cells come from one declaration.
#include "model/live.hpp"

#include <gtest/gtest.h>

#include <set>

#include "model/manual_table.hpp"

namespace tracesmith::model {
namespace {

TEST(LiveTables, HaveACellForEachColumn) {
  const ProcessEntry process{};
  const ThreadStack thread{};
  const StackFrame frame{};
  const NodeStatus node{};
  const std::pair<const char*, size_t> widths[] = {
      {"processes", cellsOf(LiveProcessRow{"", &process}).size()},
      {"threads", cellsOf(LiveThreadRow{"", 1, {}, &thread, 0}).size()},
      {"stacks", cellsOf(LiveFrameRow{"", 1, {}, 0, {}, 0, &frame}).size()},
      {"inflight", cellsOf(LiveOperationRow{}).size()},
      {"nodes", cellsOf(LiveNodeRow{&node, {}}).size()},
      {"env", cellsOf(LiveVariableRow{}).size()},
  };
  EXPECT_EQ(std::size(widths), liveTables().size());
  for (const auto& [name, width] : widths) {
    const LiveTable* table = findLiveTable(name);
    ASSERT_TRUE(table) << name;
    EXPECT_EQ(table->columns.size(), width) << name;
    std::set<std::string> names;
    for (const LiveColumn& c : table->columns) EXPECT_TRUE(names.insert(c.name).second) << name << "." << c.name;
  }
  EXPECT_EQ(findLiveTable("nothing"), nullptr);
}

TEST(LiveTables, WhatIsNotKnownIsNoValue) {
  ProcessEntry process;
  process.pid = 7;
  process.gpus = {1, 3};
  const LiveCells cells = cellsOf(LiveProcessRow{"", &process});
  const std::vector<LiveColumn>& columns = findLiveTable("processes")->columns;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string name = columns[i].name;
    if (name == "pid") {
      EXPECT_EQ(std::get<int64_t>(cells[i]), 7);
    }
    if (name == "gpus") {
      EXPECT_EQ(std::get<std::vector<int64_t>>(cells[i]), (std::vector<int64_t>{1, 3}));
    }
    if (name == "python") {
      EXPECT_EQ(std::get<bool>(cells[i]), false);
    }
    if (name == "node" || name == "rank" || name == "user") {
      EXPECT_TRUE(std::holds_alternative<std::monostate>(cells[i])) << name;
    }
  }
}

TEST(LiveTables, TheManualHasTheTableOfThem) {
  std::string rows;
  for (const LiveTable& table : liveTables()) {
    std::string columns;
    for (const LiveColumn& c : table.columns) columns += (columns.empty() ? "`" : ", `") + std::string(c.name) + "`";
    rows += std::string("| `live.") + table.name + "` | " + table.doc + " | " + columns + " |\n";
  }
  test::expectTable("| table | a row is | columns |", rows, "", "processes.md");
}

}  // namespace
}  // namespace tracesmith::model
