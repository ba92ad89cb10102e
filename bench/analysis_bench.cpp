// The analysis on a large trace: time, memory; and its HTA figures against the same ones by SQL in DuckDB and, on a
// part of the trace, by plain Python.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "analysis/hta/hta.hpp"
#include "base/statistics.hpp"
#include "capture/sim/rows.hpp"
#include "measure.hpp"
#include "tracesmith/analysis/analysis.hpp"

using namespace tracesmith;

namespace {

int analyzeAll(const std::string& path, size_t threads) {
  auto reader = trace::Reader::open(path);
  if (!reader) return 1;
  analysis::AnalyzeOptions options;
  options.threads = threads;
  auto a = analysis::analyze(**reader, options);
  return a && a->ranks > 0 ? 0 : 1;
}

/// HTA's figures alone.
int htaOnly(const std::string& path, size_t threads) {
  auto reader = trace::Reader::open(path);
  if (!reader) return 1;
  auto names = trace::NameNumbers::load(**reader);
  if (!names) return 1;
  auto steps = analysis::TraceSteps::load(**reader, *names);
  if (!steps) return 1;
  analysis::HtaAnalysis hta(*names, *steps, analysis::HtaClock());
  analysis::RankRowsOptions options;
  options.threads = threads;
  if (!analysis::eachRank(**reader, *names, options,
                          [&](analysis::RankRows& rows, size_t) { hta.add(rows, analysis::Launches(rows)); }))
    return 1;
  return hta.finish().temporal.empty() ? 1 : 0;
}

/// Temporal breakdown, kernel breakdown, idle and queue, straightforwardly: as one would with data frames.
constexpr const char* kSql = R"(
with g as materialized (select rank, stream, ts//1000 as ts, (ts+dur)//1000 as te, name, correlation, name like 'nccl%' as comm
    from events where stream is not null and type in ('kernel','memcpy','memset')),
  l as materialized (select rank, correlation, ts//1000 as ts from events where type = 'runtime'),
  j as materialized (select g.rank, g.stream, g.ts, g.te, l.ts as launch from g join l using (rank, correlation)),
  busy as (select rank, ts, te, max(te) over (partition by rank order by ts rows between unbounded preceding and 1 preceding) as before from g),
  compute as (select rank, ts, te, max(te) over (partition by rank order by ts rows between unbounded preceding and 1 preceding) as before from g where not comm),
  gaps as (select rank, stream, ts, lag(te) over (partition by rank, stream order by ts) as before, launch from j),
  points as (select rank, stream, launch as t, 1 as d from j union all select rank, stream, ts, -1 from j),
  queue as (select rank, stream, sum(d) over (partition by rank, stream order by t, d desc rows unbounded preceding) as n from points)
select 'idle' as what, rank, 0 as stream, '' as name, sum(case when before < ts then ts - before else 0 end) as a, max(te) - min(ts) as b, 0.0 as c from busy group by rank
union all select 'compute', rank, 0, '', sum(greatest(0, te - greatest(ts, coalesce(before, ts)))), 0, 0 from compute group by rank
union all select 'kernels', rank, 0, name, sum(te-ts), max(te-ts), stddev(te-ts) from g group by rank, name
union all select 'gaps', rank, stream, '', sum(ts-before) filter (launch > before), sum(ts-before) filter (launch <= before and ts-before < 30), 0 from gaps group by rank, stream
union all select 'queue', rank, stream, '', count(*), max(n), avg(n) from queue group by rank, stream
)";

constexpr const char* kPython = R"(
import csv, sys, math, collections
ranks = collections.defaultdict(lambda: ([], {}))
for row in csv.reader(sys.stdin):
    if row[0] == 'rank': continue
    rank, kind, name, ts, dur, stream, corr = int(row[0]), row[1], row[2], int(row[3]), int(row[4]), row[5], row[6]
    g, l = ranks[rank]
    if stream: g.append((ts // 1000, (ts + dur) // 1000, int(stream), name, int(corr or -1)))
    elif corr: l[int(corr)] = ts // 1000
def merged(rows):
    out = []
    for a, b in rows:
        if out and a <= out[-1][1]:
            if b > out[-1][1]: out[-1][1] = b
        else: out.append([a, b])
    return out
for rank, (g, l) in ranks.items():
    g.sort()
    m = merged((a, b) for a, b, *_ in g); c = merged((a, b) for a, b, s, n, k in g if not n.startswith('nccl'))
    busy = sum(b - a for a, b in m); compute = sum(b - a for a, b in c)
    by = collections.defaultdict(list)
    for a, b, s, n, k in g: by[n].append(b - a)
    stats = [(sum(v), max(v), min(v)) for v in by.values()]
    last = {}; host = wait = 0; points = collections.defaultdict(list)
    for a, b, s, n, k in g:
        if s in last and k in l:
            if l[k] > last[s]: host += a - last[s]
            else: wait += a - last[s]
        last[s] = b
        if k in l: points[s].append((l[k], 1)); points[s].append((a, -1))
    for v in points.values():
        v.sort(); q = 0; total = 0
        for t, d in v: q += d; total += q
)";

}  // namespace

int main(int argc, char** argv) {
  bench::usage(argc, argv,
               "analysis_bench [--events 100000000] [--ranks 512] [--trace FILE.sbt] [--rounds 3] [--python-events "
               "2000000] [--smoke]");
  const bool smoke = bench::flag(argc, argv, "--smoke");
  sim::JobConfig job;
  job.events =
      std::strtoull(bench::option(argc, argv, "--events", smoke ? "500000" : "100000000").c_str(), nullptr, 10);
  job.ranks = std::atoi(bench::option(argc, argv, "--ranks", smoke ? "16" : "512").c_str());
  const int rounds = std::atoi(bench::option(argc, argv, "--rounds", smoke ? "1" : "3").c_str());
  const auto python_events =
      std::strtoull(bench::option(argc, argv, "--python-events", smoke ? "50000" : "2000000").c_str(), nullptr, 10);
  std::string path = bench::option(argc, argv, "--trace", "");
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("analysis_bench." + std::to_string(::getpid()))).string();
  std::filesystem::create_directories(folder);
  if (path.empty()) {
    path = folder + "/big.sbt";
    if (!sim::synthesize(job, path, 2)) return 1;
  }
  std::vector<double> whole, memory, hta, sql;
  for (int r = 0; r < rounds; ++r) {
    const bench::Cost a = bench::measure([&] { return analyzeAll(path, 2); });
    const bench::Cost h = bench::measure([&] { return htaOnly(path, 2); });
    whole.push_back(a.wall_s);
    memory.push_back(a.peak_mb);
    hta.push_back(h.wall_s);
    std::printf("analyze: %.2f s, %.0f MB; HTA's figures alone: %.2f s, %.0f MB\n", a.wall_s, a.peak_mb, h.wall_s,
                h.peak_mb);
  }
  std::ofstream(folder + "/q.sql") << kSql;
  const std::string query = std::string(TRACESMITH_BIN) + " query " + path + " -f " + folder +
                            "/q.sql --format csv -o " + folder + "/q.csv 2> " + folder + "/err";
  const bench::Cost s = bench::measure([&] {
    (void)!std::system(query.c_str());
    return 0;
  });
  if (std::filesystem::exists(folder + "/q.csv"))  // not in a build without queries
    std::printf("by SQL (DuckDB, all cores, straight on the trace): %.2f s, %.1f × HTA's figures alone\n", s.wall_s,
                s.wall_s / median(hta));
  // Plain Python on a smaller trace, so that it ends: cost per event is what counts.
  sim::JobConfig small = job;
  small.events = python_events;
  small.ranks = 16;
  const std::string small_path = folder + "/small.sbt";
  if (!sim::synthesize(small, small_path, 2)) return 1;
  std::ofstream(folder + "/hta.py") << kPython;
  const std::string rows = std::string(TRACESMITH_BIN) + " query " + small_path +
                           " \"select rank,type,name,ts,dur,stream,correlation from events where stream is not null or "
                           "type='runtime'\" --format csv > " +
                           folder + "/rows.csv 2> /dev/null";
  if (std::system(rows.c_str()) == 0) {
    const bench::Cost p = bench::measure(
        [&] { return std::system(("python3 " + folder + "/hta.py < " + folder + "/rows.csv").c_str()) == 0 ? 0 : 1; });
    const bench::Cost own = bench::measure([&] { return htaOnly(small_path, 1); });
    std::printf("plain Python on %llu events: %.2f s; HTA's figures on one core: %.3f s, %.0f × faster\n",
                static_cast<unsigned long long>(python_events), p.wall_s, own.wall_s, p.wall_s / own.wall_s);
  }
  std::printf("median of %d: analyze %.2f s, %.0f MB\n", rounds, median(whole), median(memory));
  std::filesystem::remove_all(folder);
  return 0;
}
