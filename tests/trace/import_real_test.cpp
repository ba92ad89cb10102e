// Real traces from ../shared, where they are there: counts known from their README, and everything Python's json sees.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "support/imported.hpp"

namespace tracesmith::trace {
namespace {

using test::at;
using test::Imported;

std::string traces() {
  std::string shared = test::sharedDir();
  return shared.empty() ? "" : shared + "/traces/";
}

/// An import of files that are not copied.
struct Real : Imported {
  explicit Real(std::vector<std::string> paths) : Imported("[]") {
    options.paths = std::move(paths);
    run();
  }
};

size_t count(const std::vector<test::Row>& rows, const std::string& column, const std::string& value) {
  size_t n = 0;
  for (const auto& row : rows) n += at(row, column) == value;
  return n;
}

TEST(ImportReal, A100Rank0Of2) {
  if (traces().empty()) return;
  Real t({traces() + "a100-nccl-rank0of2.json.gz"});
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->losses.total(), 0u);
  auto rows = t.rows("events");
  EXPECT_EQ(count(rows, "type", "kernel"), 2700u);
  EXPECT_EQ(count(rows, "type", "cpu_op"), 14346u);
  EXPECT_EQ(count(rows, "type", "memcpy"), 960u);
  EXPECT_EQ(count(rows, "rank", "0"), rows.size());
  EXPECT_EQ(count(rows, "pid", "2910249"), rows.size() - 3);  // the spans of the profiler itself
  EXPECT_EQ(t.rows("flows").size(), 8652u + 3862 + 543 + 543);
  EXPECT_EQ(t.rows("groups").size(), 1u);
  auto collectives = t.rows("collectives");
  ASSERT_EQ(collectives.size(), 21u);
  for (const auto& c : collectives) {
    EXPECT_EQ(at(c, "comm"), "0");
    EXPECT_EQ(at(c, "group_size"), "2");
    EXPECT_EQ(at(c, "group_rank"), "0");
    EXPECT_EQ(at(c, "proto"), "LL");
    EXPECT_NE(at(c, "step"), "NULL");
  }
  EXPECT_EQ(at(test::only(collectives, "ts", "1716423322423385774"), "bytes"), std::to_string(53120 * 4));
}

TEST(ImportReal, DeviceRowsHaveTheStepOfTheirLaunch) {
  if (traces().empty()) return;
  Real t({traces() + "v100-nanosecond.json.gz"});
  ASSERT_TRUE(t.report) << t.error();
  std::vector<std::array<int64_t, 3>> steps;
  for (const auto& s : t.rows("steps"))
    steps.push_back({std::stoll(at(s, "ts")), std::stoll(at(s, "ts_end")), std::stoll(at(s, "step"))});
  ASSERT_FALSE(steps.empty());
  auto rows = t.rows("events");
  std::map<std::string, std::string> launches;
  for (const auto& row : rows) {
    if (at(row, "type") != "runtime" && at(row, "type") != "driver") continue;
    std::string step = "NULL";
    for (const auto& [from, to, number] : steps)
      if (std::stoll(at(row, "ts")) >= from && std::stoll(at(row, "ts")) < to) step = std::to_string(number);
    EXPECT_EQ(at(row, "step"), step);
    launches[at(row, "correlation")] = step;
  }
  size_t device = 0;
  for (const auto& row : rows) {
    if (at(row, "type") != "kernel" && at(row, "type") != "memcpy" && at(row, "type") != "memset") continue;
    auto it = launches.find(at(row, "correlation"));
    EXPECT_EQ(at(row, "step"), it == launches.end() ? "NULL" : it->second) << at(row, "correlation");
    device += at(row, "step") != "NULL";
  }
  EXPECT_GT(device, 4000u);
}

TEST(ImportReal, AFolderOfRanks) {
  if (traces().empty()) return;
  Real t({traces() + "two-of-128-ranks"});
  ASSERT_TRUE(t.report) << t.error();
  EXPECT_EQ(t.report->files, 2u);
  EXPECT_EQ(t.report->ranks, (std::set<int64_t>{0, 1}));
  EXPECT_TRUE(t.report->warnings.empty());
  auto rows = t.rows("collectives");
  EXPECT_EQ(count(rows, "rank", "0"), 10u);
  EXPECT_EQ(count(rows, "rank", "1"), 10u);
  std::set<std::string> steps;
  for (const auto& s : t.rows("steps")) steps.insert(at(s, "step"));
  EXPECT_EQ(steps, (std::set<std::string>{"551", "552"}));
}

TEST(ImportReal, TheSameRankTwiceIsWarnedOf) {
  if (traces().empty()) return;
  Real t({traces() + "compare"});
  ASSERT_TRUE(t.report) << t.error();
  ASSERT_EQ(t.report->warnings.size(), 1u);
  EXPECT_NE(t.report->warnings[0].find("rank 1 is in both"), std::string::npos);
}

/// What Python's json sees in a trace, as lines "what key count".
constexpr const char* kPython = R"PY(
import collections, decimal, gzip, json, sys
path = sys.argv[1]
raw = (gzip.open if path.endswith('.gz') else open)(path, 'rb').read()
d = json.loads(raw, parse_float=decimal.Decimal)
events = d if isinstance(d, list) else d['traceEvents']
names = {'Kernel': 'kernel', 'gpu_memcpy': 'memcpy', 'Memcpy': 'memcpy', 'gpu_memset': 'memset', 'Memset': 'memset', 'cuda_runtime': 'runtime',
         'Runtime': 'runtime', 'cuda_driver': 'driver', 'cuda_sync': 'sync', 'Operator': 'cpu_op', 'user_annotation': 'annotation',
         'gpu_user_annotation': 'gpu_annotation', 'python_function': 'python', 'kernel': 'kernel', 'cpu_op': 'cpu_op', 'overhead': 'overhead'}
ns = lambda v: int(decimal.Decimal(v) * 1000)
base = 0 if isinstance(d, list) else d.get('baseTimeNanoseconds', 0)
types, total = collections.Counter(), collections.Counter()
for e in events:
    if e['ph'] in 'Xi':
        t = names.get(e.get('cat'), 'other') if e['ph'] == 'X' else 'marker'
        a = e.get('args', {})
        types[t] += 1
        total['ts'] += base + ns(e['ts']); total['dur'] += ns(e.get('dur', 0))
        total['correlation'] += a.get('correlation', 0); total['external_id'] += a.get('External id', a.get('external id', 0))
        total['bytes'] += int(a.get('bytes', 0)); total['name'] += len(e['name'].encode())
    elif e['ph'] in 'sf':
        types['flow'] += 1; total['flow'] += e['id']
for k, v in sorted(types.items()): print('type', k, v)
for k, v in sorted(total.items()): print('sum', k, v)
)PY";

TEST(ImportReal, EveryTraceAgreesWithPython) {
  if (traces().empty() || test::run({"python3", "--version"}).rc != 0) return;
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(traces())) {
    std::string path = entry.path().string();
    if (!path.ends_with(".json") && !path.ends_with(".json.gz")) continue;
    ++files;
    Real t({path});
    ASSERT_TRUE(t.report) << t.error();
    EXPECT_EQ(t.report->losses.total(), 0u) << path;
    std::map<std::string, int64_t> types;
    std::map<std::string, uint64_t> total;  // modulo 2^64
    for (const auto& row : t.rows("events")) {
      ++types[at(row, "type")];
      for (const char* column : {"ts", "dur", "correlation", "external_id", "bytes"})
        if (row.contains(column)) total[column] += static_cast<uint64_t>(std::stoll(at(row, column)));
      total["name"] += at(row, "name").size();
    }
    for (const auto& row : t.rows("flows")) {
      ++types["flow"];
      total["flow"] += static_cast<uint64_t>(std::stoll(at(row, "id")));
    }
    std::ostringstream ours;
    for (const auto& [k, v] : types) ours << "type " << k << " " << v << "\n";
    for (const char* k : {"bytes", "correlation", "dur", "external_id", "flow", "name", "ts"})
      if (k != std::string("flow") || types.contains("flow"))
        ours << "sum " << k << " " << static_cast<int64_t>(total[k]) << "\n";
    // Sums of times are larger than 64 bits where Unix times are added up: compare modulo 2^64.
    std::istringstream theirs(test::run({"python3", "-c", kPython, path}).out);
    std::ostringstream expected;
    for (std::string line; std::getline(theirs, line);) {
      size_t space = line.rfind(' ');
      uint64_t v = 0;
      for (char c : line.substr(space + 1)) v = v * 10 + static_cast<uint64_t>(c - '0');
      expected << line.substr(0, space) << " " << static_cast<int64_t>(v) << "\n";
    }
    EXPECT_EQ(ours.str(), expected.str()) << path;
  }
  EXPECT_GT(files, 15u);
}

}  // namespace
}  // namespace tracesmith::trace
