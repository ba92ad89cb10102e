// SQL over a trace against DuckDB's own table and Parquet of the same rows, in one process, in turn.
// --keep leaves the native table and the Parquet files in D, and takes those that are there.
// a: time by name; b: 1 ms of one device; c: spread of the ends of collectives over ranks, for each step; d: launches
// joined with kernels under a memory limit of 2 GB. Bars, against the native table: a and c ≤ 1.6 × and faster than
// Parquet, b ≤ 15 ms, d ≤ 1.2 ×; by hand (src/analysis) b and d ≤ 0.5 ×. Ratios are of CPU time, medians of the rounds.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <duckdb.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "analysis/rows/correlate.hpp"
#include "analysis/rows/window.hpp"
#include "base/file.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "measure.hpp"
#include "query/block_scan.hpp"

namespace tracesmith::bench {
namespace {

double cpuNow() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Series {
  std::vector<double> cpu, wall;
  std::string answer;
};

/// Runs work (which returns its answer as text) and notes what it took.
void time(Series& series, const std::function<std::string()>& work) {
  double cpu = cpuNow();
  auto start = std::chrono::steady_clock::now();
  std::string answer = work();
  series.wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  series.cpu.push_back(cpuNow() - cpu);
  if (!series.answer.empty() && series.answer != answer) {
    std::fprintf(stderr, "the answer changed between rounds\n%s\n%s\n", series.answer.c_str(), answer.c_str());
    std::exit(1);
  }
  series.answer = std::move(answer);
}

class Database {
 public:
  Database(const std::string& trace, const std::string& dir, bool keep) : connection_(database_), keep_(keep) {
    traces_ = std::make_shared<query::TraceSet>();
    if (Status s = traces_->open({trace}); !s) stop(s.message());
    query::registerTables(connection_, traces_);
    run("SET temp_directory = '" + dir + "/query_bench.spill'");
    run("SET memory_limit = '8GB'");
    native_ = dir + "/query_bench.duckdb";
    if (!keep_) std::filesystem::remove(native_);
    const bool there = std::filesystem::exists(native_);
    run("ATTACH '" + native_ + "' AS native");
    for (const char* table : {"events", "collectives"}) {
      std::string parquet = dir + "/query_bench." + table + ".parquet";
      parquet_.push_back(parquet);
      if (there) continue;
      run(std::string("CREATE TABLE native.") + table + " AS SELECT * FROM main." + table);
      run(std::string("COPY native.") + table + " TO '" + parquet +
          "' (FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd)");
    }
    run("CHECKPOINT native");
    run("CREATE SCHEMA parquet");
    run("CREATE VIEW parquet.events AS SELECT * FROM '" + parquet_[0] + "'");
    run("CREATE VIEW parquet.collectives AS SELECT * FROM '" + parquet_[1] + "'");
  }
  ~Database() {
    traces_.reset();
    run("DETACH native");
    if (keep_) return;
    std::filesystem::remove(native_);
    for (const std::string& f : parquet_) std::filesystem::remove(f);
  }

  std::string run(const std::string& sql) {
    auto result = connection_.Query(sql);
    if (result->HasError()) stop(sql + "\n" + result->GetError());
    std::string text = result->ToString();
    return text.substr(std::min(text.find("[ Rows"), text.size()));  // the types differ: Parquet has no enums
  }
  /// {} in the text is the place the tables are in: main (the trace), native or parquet.
  std::string ask(const std::string& sql, const std::string& place) {
    return run(duckdb::StringUtil::Replace(sql, "{}", place));
  }
  const trace::Reader& reader() const { return *traces_->sources()[0].reader; }
  uint64_t nativeBytes() const { return std::filesystem::file_size(native_); }
  uint64_t parquetBytes() const {
    return std::filesystem::file_size(parquet_[0]) + std::filesystem::file_size(parquet_[1]);
  }
  std::string value(const std::string& sql) { return connection_.Query(sql)->GetValue(0, 0).ToString(); }

 private:
  [[noreturn]] static void stop(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }
  duckdb::DuckDB database_;
  duckdb::Connection connection_;
  std::shared_ptr<query::TraceSet> traces_;
  std::string native_;
  std::vector<std::string> parquet_;
  bool keep_;
};

struct Sums {
  int64_t count = 0, sum = 0, low = INT64_MAX, high = INT64_MIN;
};

/// Query d by hand.
Sums launchDelay(const trace::Reader& reader) {
  analysis::CorrelateOptions options;
  options.launch_types = 1ull << static_cast<int>(trace::EventType::runtime);
  options.work_types = 1ull << static_cast<int>(trace::EventType::kernel);
  std::vector<Sums> sums(analysis::correlateThreads(options));
  Status s = analysis::correlate(reader, options,
                                 [&](const trace::Block&, std::span<const analysis::LaunchPair> pairs, size_t worker) {
                                   Sums local = sums[worker];
                                   for (const analysis::LaunchPair& p : pairs) {
                                     const int64_t delay = p.ts - p.launch_ts;
                                     ++local.count;
                                     local.sum += delay;
                                     local.low = std::min(local.low, delay);
                                     local.high = std::max(local.high, delay);
                                   }
                                   sums[worker] = local;
                                 });
  if (!s) std::fprintf(stderr, "%s\n", s.message().c_str());
  Sums all;
  for (const Sums& x : sums) {
    all.count += x.count;
    all.sum += x.sum;
    all.low = std::min(all.low, x.low);
    all.high = std::max(all.high, x.high);
  }
  return all;
}

int main(int argc, char** argv) {
  usage(argc, argv,
        "query_bench [TRACE.sbt] [--rows N] [--rounds K] [--dir D] [--json OUT] [--only abcd] [--keep] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const std::string rows = option(argc, argv, "--rows", smoke ? "60000" : "20000000");
  const int rounds = std::stoi(option(argc, argv, "--rounds", smoke ? "1" : "7"));
  const std::string dir = option(argc, argv, "--dir", std::filesystem::temp_directory_path());
  const std::string only = option(argc, argv, "--only", "abcd");
  std::string trace = argc > 1 && argv[1][0] != '-' ? argv[1] : "", made;
  if (trace.empty()) {
    trace = made = dir + "/query_bench.sbt";
    std::string command = std::string(TRACESMITH_BIN) + " synth -o " + made + " --events " + rows + " --ranks " +
                          (smoke ? "16" : "512") + " >/dev/null";
    if (std::system(command.c_str()) != 0) return 1;
  }
  std::string json;
  JsonWriter out(json);
  out.beginObject();
  {
    Database db(trace, dir, flag(argc, argv, "--keep"));
    const std::string node = db.value("SELECT node FROM main.events WHERE device = 3 LIMIT 1");
    const int64_t middle = std::stoll(
        db.value("SELECT (min(ts) + max(ts)) // 2 FROM main.events WHERE device = 3 AND node = '" + node + "'"));
    const std::string from = std::to_string(middle), to = std::to_string(middle + 1000000);
    const uint64_t events = std::stoull(db.value("SELECT count(*) FROM main.events"));
    std::printf("%s events; trace %s, native %s, Parquet v2 %s\n", humanCount(events).c_str(),
                humanBytes(std::filesystem::file_size(trace)).c_str(), humanBytes(db.nativeBytes()).c_str(),
                humanBytes(db.parquetBytes()).c_str());
    out.field("events", events).field("rounds", rounds);

    struct Query {
      char name;
      std::string sql;
    } queries[] = {
        {'a', "SELECT name, count(*), sum(dur) FROM {}.events GROUP BY name ORDER BY 3 DESC LIMIT 20"},
        {'b', "SELECT * FROM {}.events WHERE ts BETWEEN " + from + " AND " + to + " AND node = '" + node +
                  "' AND device = 3 ORDER BY ts, name"},
        {'c',
         "WITH ends AS (SELECT step, rank, max(ts_end) AS last FROM {}.collectives GROUP BY step, rank) "
         "SELECT step, max(last) - min(last) AS spread FROM ends GROUP BY step ORDER BY step"},
        {'d',
         "SELECT count(*), sum(k.ts - l.ts), min(k.ts - l.ts), max(k.ts - l.ts) FROM {}.events k JOIN {}.events l "
         "ON k.rank = l.rank AND k.correlation = l.correlation WHERE k.type = 'kernel' AND l.type = 'runtime'"},
    };
    const analysis::WindowQuery slice{node, 3, middle, middle + 1000001};
    for (const Query& q : queries) {
      if (only.find(q.name) == std::string::npos) continue;
      if (q.name == 'd') db.run("SET memory_limit = '2GB'");
      Series blocks, native, parquet, hand;
      for (int round = -1; round < rounds; ++round) {  // the first is to warm up
        Series b, n, p, h;
        Series* into[] = {round < 0 ? &b : &blocks, round < 0 ? &n : &native, round < 0 ? &p : &parquet,
                          round < 0 ? &h : &hand};
        time(*into[0], [&] { return db.ask(q.sql, "main"); });
        time(*into[1], [&] { return db.ask(q.sql, "native"); });
        time(*into[2], [&] { return db.ask(q.sql, "parquet"); });
        if (q.name == 'b')
          time(*into[3], [&] {
            auto found = analysis::window(db.reader(), slice);
            return found ? std::to_string(found->size()) : found.status().message();
          });
        if (q.name == 'd')
          time(*into[3], [&] {
            Sums s = launchDelay(db.reader());
            return std::to_string(s.count) + "|" + std::to_string(s.sum) + "|" + std::to_string(s.low) + "|" +
                   std::to_string(s.high);
          });
      }
      if (blocks.answer != native.answer || blocks.answer != parquet.answer) {
        std::fprintf(stderr, "%c: the answers differ\n%.2000s\n%.2000s\n%.2000s\n", q.name, blocks.answer.c_str(),
                     native.answer.c_str(), parquet.answer.c_str());
        return 1;
      }
      std::string expected;
      if (q.name == 'b')
        expected = db.value("SELECT count(*) FROM native.events WHERE ts <= " + to + " AND (ts >= " + from +
                            " OR ts_end >= " + from + ") AND node = '" + node + "' AND device = 3");
      if (q.name == 'd')
        expected = db.value("SELECT concat_ws('|', n, s, low, high) FROM (" +
                            duckdb::StringUtil::Replace(q.sql, "{}", "native") + ") t(n, s, low, high)");
      if (hand.answer != expected) {
        std::fprintf(stderr, "%c by hand: %s, expected %s\n", q.name, hand.answer.c_str(), expected.c_str());
        return 1;
      }
      out.key(std::string(1, q.name)).beginObject();
      const double base = median(native.cpu), wall = median(native.wall);
      auto line = [&](const char* what, const Series& s) {
        if (s.cpu.empty()) return;
        auto [low, high] = std::minmax_element(s.cpu.begin(), s.cpu.end());
        std::printf("%c %-8s CPU %8.2f ms (%.2f–%.2f)  %.2f ×   wall %8.2f ms  %.2f ×\n", q.name, what,
                    median(s.cpu) * 1e3, *low * 1e3, *high * 1e3, median(s.cpu) / base, median(s.wall) * 1e3,
                    median(s.wall) / wall);
        out.key(what)
            .beginObject()
            .field("cpu_s", median(s.cpu))
            .field("wall_s", median(s.wall))
            .field("cpu_ratio", median(s.cpu) / base);
        out.field("wall_ratio", median(s.wall) / wall).endObject();
      };
      line("native", native);
      line("trace", blocks);
      line("parquet", parquet);
      line("by hand", hand);
      out.endObject();
      std::fflush(stdout);
    }
  }
  out.endObject();
  if (!made.empty()) std::filesystem::remove(made);
  if (std::string path = option(argc, argv, "--json", ""); !path.empty()) {
    Result<File> file = File::create(path);
    if (!file || !file->write(json + "\n")) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) { return tracesmith::bench::main(argc, argv); }
