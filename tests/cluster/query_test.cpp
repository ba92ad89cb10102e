// `cluster query`: the answer is that of one database with the rows of all nodes, whatever of them is fetched.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "cluster/cluster_fixture.hpp"
#include "cluster/rpc/client.hpp"

namespace tracesmith::cluster {
namespace {

/// Queries over a simulated job. All results are ordered, and floating-point sums are made of decimals: whatever comes
/// out is the same in any order of the rows.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string next() {
    const size_t kind = number(9);
    const std::string from = table(), condition = where();
    const std::string rows = from + condition;
    switch (kind) {
      case 0: {
        const std::string some = columns(3);
        return "SELECT * FROM (SELECT " + some + " FROM " + rows + ") ORDER BY ALL LIMIT " +
               std::to_string(1 + number(50));
      }
      case 1: {
        const std::string by = group();
        return "SELECT " + by + ", " + aggregates() + " FROM " + rows + " GROUP BY ALL ORDER BY ALL";
      }
      case 2:
        return "SELECT " + aggregates() + " FROM " + rows;
      case 3:
        return "SELECT DISTINCT " + columns(2) + " FROM " + rows + " ORDER BY ALL LIMIT 200";
      case 4: {  // windows
        return "SELECT node, rank, max(gap) AS a, min(n) AS b, sum(mean)::DECIMAL(38, 3) AS c FROM (SELECT node, rank, "
               "ts - "
               "lag(ts_end) OVER w AS gap, row_number() OVER w AS n, avg(dur) OVER (PARTITION BY node, rank ORDER BY "
               "ts, "
               "dur, " +
               last_text_ + " ROWS 3 PRECEDING)::DECIMAL(20, 3) AS mean FROM " + rows +
               " WINDOW w AS (PARTITION BY node, rank ORDER BY ts, dur, " + last_text_ + ")) GROUP BY ALL ORDER BY ALL";
      }
      case 5: {  // joins across ranks and nodes
        last_ = 1;
        const std::string a = where();
        return "SELECT a.node AS x, b.node AS y, count(*), max(abs(a.bytes - b.bytes)), sum(a.dur - b.dur) FROM "
               "(SELECT * "
               "FROM collectives" +
               a +
               ") a JOIN collectives b ON a.comm = b.comm AND a.seq = b.seq AND a.rank < b.rank "
               "GROUP BY ALL ORDER BY ALL";
      }
      case 6: {
        const std::string by = group(), one = text();
        return "SELECT " + by + ", quantile_disc(dur, 0." + std::to_string(1 + number(9)) +
               "), median(dur), mode(rank) IS NULL, count(DISTINCT " + one + ") FROM " + rows +
               " GROUP BY ALL ORDER BY ALL";
      }
      case 7: {
        const std::string by = group();
        return "SELECT " + by + ", count(*) FROM " + from + (condition.empty() ? " WHERE " : condition + " AND ") +
               "dur " + (number(2) ? ">" : "<=") + " (SELECT avg(dur) FROM " + from +
               " WHERE rank = " + std::to_string(number(5)) + ") GROUP BY ALL ORDER BY ALL";
      }
      default: {
        const std::string one = "SELECT node, rank, step FROM steps" + conditions({"step", "rank"}),
                          two = "SELECT node, rank, step FROM collectives" + conditions({"step", "rank"});
        const char* kSets[] = {" UNION ", " EXCEPT ", " INTERSECT ", " UNION ALL "};
        return "SELECT node, rank, count(*), min(step), max(step) FROM (" + one + kSets[number(4)] + two +
               ") GROUP BY ALL ORDER BY ALL";
      }
    }
  }

 private:
  struct Table {
    const char* name;
    std::vector<const char*> numbers, texts;
  };
  static const std::vector<Table>& tables() {
    static const std::vector<Table> all = {
        {"events",
         {"ts", "dur", "ts_end", "rank", "pid", "tid", "device", "stream", "correlation", "step", "bytes", "grid_x"},
         {"name", "node", "type", "args"}},
        {"collectives",
         {"ts", "dur", "ts_end", "seq", "rank", "group_rank", "group_size", "peer", "bytes", "step", "ts_enqueue"},
         {"op", "comm", "node", "dtype", "name"}},
        {"steps", {"ts", "dur", "ts_end", "rank", "pid", "step"}, {"node", "name"}}};
    return all;
  }

  size_t number(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }
  std::string table() {
    last_ = number(tables().size());
    last_text_ = tables()[last_].texts[0];
    return tables()[last_].name;
  }
  std::string numeric() {
    const auto& all = tables()[last_].numbers;
    return all[number(all.size())];
  }
  std::string text() {
    const auto& all = tables()[last_].texts;
    return all[number(all.size())];
  }
  std::string columns(size_t n) {  // before the table is chosen: of those that all have
    static constexpr const char* kCommon[] = {"node", "rank", "step", "dur", "ts", "ts_end", "name", "pid"};
    std::string out;
    for (size_t i = 0; i < n; ++i)
      out += (i > 0 ? ", " : "") + std::string(kCommon[(number(8) + i) % 8]) + " AS c" + std::to_string(i);
    return out;
  }
  std::string group() {
    static constexpr const char* kGroups[] = {"node", "rank", "node, rank", "step % 7", "rank % 2 = 0", "dur > 20000"};
    return kGroups[number(6)];
  }
  std::string aggregates() {
    static constexpr const char* kAll[] = {"count(*)",
                                           "count(step)",
                                           "sum(dur)",
                                           "min(ts)",
                                           "max(ts_end)",
                                           "avg(dur)::DECIMAL(20, 4)",
                                           "sum(step)",
                                           "min(name)",
                                           "count(DISTINCT pid)",
                                           "max(name)",
                                           "avg(rank) FILTER (dur > 0)",
                                           "bit_xor(ts)"};
    std::string out = kAll[number(12)];
    for (size_t i = number(3); i > 0; --i) out += std::string(", ") + kAll[number(12)];
    return out;
  }
  std::string condition(const std::string& column) {
    static constexpr const char* kOperators[] = {" = ", " <> ", " < ", " >= "};
    if (column == "node") return number(2) ? "node = 'alpha'" : "node IN ('beta', 'nobody')";
    if (column == "type") return number(2) ? "type = 'kernel'" : "type IN ('runtime', 'memcpy', 'marker')";
    if (column == "op") return number(2) ? "op = 'all_reduce'" : "op LIKE '%e%'";
    if (column == "ts" || column == "ts_end" || column == "ts_enqueue") {
      const std::string of = tables()[last_].name;
      return column + (number(2) ? " > " : " <= ") + "(SELECT min(ts) + " + std::to_string(number(1500)) +
             "000000 FROM " + of + ")";
    }
    if (column == "name" || column == "comm" || column == "dtype" || column == "args")
      return number(2) ? column + " IS NOT NULL" : column + " LIKE '%" + static_cast<char>('a' + number(26)) + "%'";
    if (number(6) == 0) return column + (number(2) ? " IS NULL" : " IS NOT NULL");
    if (column == "dur" || column == "bytes")
      return column + kOperators[2 + number(2)] + std::to_string(number(200) * number(1000));
    if (number(4) == 0) return column + " BETWEEN " + std::to_string(number(3)) + " AND " + std::to_string(number(40));
    return column + kOperators[number(4)] + std::to_string(number(8));
  }
  std::string where() {
    const Table& t = tables()[last_];
    std::vector<std::string> all(t.numbers.begin(), t.numbers.end());
    all.insert(all.end(), t.texts.begin(), t.texts.end());
    return conditions(all);
  }
  std::string conditions(const std::vector<std::string>& columns) {
    std::string out;
    for (size_t i = number(4); i > 0; --i)
      out += (out.empty() ? " WHERE " : number(4) ? " AND " : " OR ") + condition(columns[number(columns.size())]);
    return out;
  }

  std::mt19937_64 random_;
  size_t last_ = 0;  // table
  std::string last_text_ = "name";
};

class Query : public ClusterFixture {
 protected:
  void SetUp() override {
    if (!TRACESMITH_HAS_QUERY) GTEST_SKIP() << "built without SQL";
  }
  std::vector<std::unique_ptr<Child>> twoNodes() {
    const std::string start = std::to_string(::time(nullptr));
    std::vector<std::unique_ptr<Child>> both;
    for (const auto& [node, first] : {std::pair("alpha", "0"), std::pair("beta", "2")})
      both.push_back(agent(node, {"--sim", "2", "--sim-ranks", "4", "--sim-first-rank", first, "--sim-start", start}));
    EXPECT_TRUE(connected(2));
    return both;
  }
  /// What `-v` says was fetched, in bytes; and of how much.
  static std::pair<double, double> fetched(const std::string& err) {
    const size_t at = err.find("fetched ");
    if (at == std::string::npos) return {-1, -1};
    std::istringstream in(err.substr(at + 8));
    auto bytes = [&] {
      double n = 0;
      std::string unit;
      in >> n >> unit;
      return n * (unit.starts_with("M") ? 1e6 : unit.starts_with("k") || unit.starts_with("K") ? 1e3 : 1);
    };
    const double some = bytes();
    std::string of;
    in >> of;
    return {some, bytes()};
  }
};

TEST_F(Query, AnswersAsOneDatabaseWithAllRowsDoes) {
  startMaster();
  const auto nodes = twoNodes();
  const std::string trace = dir_ / "all.sbt";
  ASSERT_EQ(command({"record", "--name", "s", "-o", trace, "-d", "2"}).rc, 0);
  const char* given = std::getenv("TRACESMITH_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu: repeat with TRACESMITH_SEED\n", static_cast<unsigned long long>(seed));
  Generator generator(seed);
  size_t rows = 0;
  for (int batch = 0; batch < 10; ++batch) {
    std::string sql;
    std::vector<std::string> all;
    for (int i = 0; i < 30; ++i) {
      all.push_back(generator.next());
      sql += "SELECT " + std::to_string(i) + " AS this_is_query;\n" + all.back() + ";\n";
    }
    test::writeFile(dir_ / "q.sql", sql);
    const Output expected = test::tracesmith({"query", trace, "-f", dir_ / "q.sql", "--format", "csv"});
    ASSERT_EQ(expected.rc, 0) << expected.err << sql;
    const Output found = command({"query", "--name", "s", "--format", "csv", "-f", dir_ / "q.sql"});
    ASSERT_EQ(found.rc, 0) << found.err;
    rows += static_cast<size_t>(std::count(expected.out.begin(), expected.out.end(), '\n'));
    if (expected.out == found.out) continue;
    size_t at = 0, which = 0;
    while (at < expected.out.size() && at < found.out.size() && expected.out[at] == found.out[at]) ++at;
    for (size_t k = expected.out.find("this_is_query"); k < at; k = expected.out.find("this_is_query", k + 1)) ++which;
    FAIL() << "batch " << batch << ", " << (which > 0 ? all[which - 1] : "") << "\nexpected …"
           << expected.out.substr(at > 200 ? at - 200 : 0, 400) << "\nfound …"
           << found.out.substr(at > 200 ? at - 200 : 0, 400);
  }
  EXPECT_GT(rows, 3000u) << "the queries are about nothing";
}

TEST_F(Query, FetchesWhatItNeeds) {
  startMaster();
  const auto nodes = twoNodes();
  ASSERT_EQ(command({"record", "--name", "s", "-o", dir_ / "all.sbt", "-d", "2"}).rc, 0);
  auto ask = [&](const std::string& sql) {
    const Output o = command({"query", "--name", "s", "--format", "csv", "-v", sql});
    EXPECT_EQ(o.rc, 0) << o.err;
    return fetched(o.err);
  };
  const auto [outline, all] = ask("SELECT count(*) FROM events");  // from the outline alone
  EXPECT_GT(outline, 0);
  EXPECT_LT(outline, all / 2);
  const double one = ask("SELECT sum(dur) FROM events").first,
               more = ask("SELECT sum(dur), max(bytes) FROM events").first,
               some = ask("SELECT sum(dur) FROM events WHERE rank = 1").first;
  EXPECT_GT(one, outline);
  EXPECT_GT(more, one) << "another column";
  EXPECT_LT(some, one) << "only blocks of that rank";
  EXPECT_GT(ask("SELECT * FROM events").first, more);
}

TEST_F(Query, SaysWhichNodesAreInTheAnswer) {
  startMaster();
  auto nodes = twoNodes();
  ASSERT_EQ(command({"record", "--name", "s", "-o", dir_ / "all.sbt", "-d", "0.5"}).rc, 0);
  const std::vector<std::string> count = {
      "query", "--name", "s", "--strict", "--format", "csv", "SELECT count(DISTINCT node) AS n FROM events"};
  Output o = command(count);
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "n\n2\n");
  EXPECT_TRUE(has(o.err, "note: 2 nodes asked, none failed or late")) << o.err;
  // A session that still records, of which a node is gone.
  ASSERT_EQ(command({"start", "--name", "t"}).rc, 0);
  ASSERT_TRUE(eventually([&] {
    return command({"query", "--name", "t", "--format", "csv", "SELECT count(DISTINCT node) FROM steps"})
               .out.find("2") != std::string::npos;
  }));
  nodes[1]->signal(SIGKILL);
  ASSERT_TRUE(connected(1));
  o = command({"query", "--name", "t", "--format", "csv", "SELECT count(DISTINCT node) AS n FROM steps"});
  EXPECT_EQ(o.rc, 0);
  EXPECT_EQ(o.out, "n\n2\n") << "what it had sent is there";
  EXPECT_TRUE(has(o.err, "warning: node beta is missing or incomplete: ")) << o.err;
  o = command({"query", "--name", "t", "--strict", "SELECT 1"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.out, "");
  EXPECT_TRUE(has(o.err, "not all nodes are in the answer")) << o.err;
  EXPECT_EQ(command(count).rc, 0) << "the other session is complete";
  EXPECT_EQ(command({"query", "--format", "csv", "SELECT node, connected FROM live.nodes ORDER BY 1"}).out,
            "node,connected\nalpha,true\nbeta,false\n");
}

TEST_F(Query, LiveTablesStandBesideWhatIsStored) {
  startMaster();
  const auto nodes = twoNodes();
  ASSERT_EQ(command({"start", "--name", "s"}).rc, 0);
  Output o;
  EXPECT_TRUE(eventually([&] {
    o = command({"query", "--name", "s", "--format", "csv",
                 "SELECT p.node, p.rank, count(*) > 0 AS steps FROM live.processes p JOIN steps s USING (node, rank) "
                 "WHERE p.simulated GROUP BY ALL ORDER BY ALL"});
    return o.out == "node,rank,steps\nalpha,0,true\nalpha,1,true\nbeta,2,true\nbeta,3,true\n";
  })) << o.out
      << o.err;
  EXPECT_EQ(command({"query", "SELECT * FROM live.env"}).rc, 1) << "environments are not asked over the network";
}

/// Remembers what was left out.
struct Outline : OutlineSink {
  struct Gap {
    SegmentName segment;
    uint64_t offset, size;
  };
  std::vector<Gap> gaps;
  uint64_t came = 0;
  Status bytes(std::string_view bytes) override {
    came += bytes.size();
    return {};
  }
  Status leftOut(const SegmentName& segment, uint64_t offset, uint64_t size) override {
    gaps.push_back({segment, offset, size});
    return {};
  }
};

TEST_F(Query, OnlyWhatIsStoredIsRead) {
  startMaster();
  const auto nodes = twoNodes();
  ASSERT_EQ(command({"record", "--name", "s", "-o", dir_ / "all.sbt", "-d", "1.5"}).rc, 0);
  ClientOptions options;
  options.master = address();
  Result<std::unique_ptr<Client>> client = connectClient(options);
  ASSERT_TRUE(client) << client.status().message();
  Outline all, steps;
  ASSERT_TRUE((*client)->outline("s", {}, all));
  ASSERT_TRUE((*client)->outline("s", {"steps"}, steps));
  ASSERT_FALSE(all.gaps.empty());
  EXPECT_LT(steps.came, all.came) << "tables that nobody asks for are left out as a whole";
  const Outline::Gap gap = all.gaps.front();
  std::string bytes;
  const auto take = [&](std::string_view more) {
    bytes += more;
    return Status();
  };
  const auto read = [&](std::vector<SegmentPiece> pieces) {
    bytes.clear();
    return (*client)->readPieces(pieces, take);
  };
  ASSERT_TRUE(read({{gap.segment, gap.offset, gap.size}}));
  const std::string whole = bytes;
  ASSERT_EQ(whole.size(), gap.size);
  ASSERT_TRUE(read({{gap.segment, gap.offset + 10, 5}, {gap.segment, gap.offset, 3}, {gap.segment, gap.offset, 0}}));
  EXPECT_EQ(bytes, whole.substr(10, 5) + whole.substr(0, 3));
  EXPECT_EQ(read({{gap.segment, gap.offset, uint64_t{1} << 40}}).code(), Code::kInvalid);
  EXPECT_EQ(read({{gap.segment, UINT64_MAX - 2, 10}}).code(), Code::kInvalid);
  SegmentName other = gap.segment;
  other.number += 1000;
  EXPECT_EQ(read({{other, 0, 10}}).code(), Code::kNotFound);
  other = gap.segment;
  other.node = "../" + other.node;
  EXPECT_EQ(read({{other, 0, 10}}).code(), Code::kNotFound);
  other = gap.segment;
  other.epoch += "/..";
  EXPECT_EQ(read({{other, 0, 10}}).code(), Code::kNotFound);
}

}  // namespace
}  // namespace tracesmith::cluster
