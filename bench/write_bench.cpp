// Writing a trace against writing the same rows raw: CPU time, bytes, memory.
// Three things are measured in turn, each in its own process, two threads each: making the rows (nothing written),
// writing them as packed structs of their natural widths, writing them as SBT. Bars: SBT ≤ 1.2 × the CPU time of raw
// (rows included in both), ≥ 10 million events/s on 2 cores, ≤ 5.0 bytes/event, ≤ 300 MB.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.hpp"
#include "base/parallel.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "capture/sim/rows.hpp"
#include "measure.hpp"

namespace tracesmith::bench {
namespace {

using namespace tracesmith::sim;

#pragma pack(push, 1)
struct RawRow {
  int64_t ts, dur, correlation, bytes;
  uint32_t name, node, rank, pid, tid, step, launch;
  uint16_t stream;
  uint8_t device, type;
};
#pragma pack(pop)

/// Makes all rows; with a file, writes them as RawRow.
int rawRows(const JobConfig& config, const std::string& path, const std::string& strings_path) {
  Job job(config);
  auto writer = trace::Writer::create(strings_path);
  if (!writer) return 1;
  JobStrings strings(job, **writer);
  File file;
  if (!path.empty()) {
    Result<File> created = File::create(path);
    if (!created) return 1;
    file = std::move(*created);
  }
  constexpr size_t kThreads = 2;
  std::vector<std::vector<RawRow>> buffers(kThreads);
  std::vector<uint64_t> sums(kThreads);
  JobRows rows(job);
  bool good = true;
  while (rows.nextWindow(kThreads)) {
    Turnstile turnstile;
    parallelFor(static_cast<size_t>(config.ranks), kThreads, [&](size_t r, size_t worker) {
      EventRows make(job, strings, static_cast<int>(r));
      std::vector<RawRow>& buffer = buffers[worker];
      buffer.clear();
      rows.events(static_cast<int>(r), [&](const SimEvent& e, int step) {
        trace::EventRow row = make.row(e, step);
        if (path.empty()) {
          sums[worker] += static_cast<uint64_t>(row.ts + row.name);
          return;
        }
        buffer.push_back(
            {row.ts, row.dur, row.correlation, row.bytes, static_cast<uint32_t>(row.name),
             static_cast<uint32_t>(row.node), static_cast<uint32_t>(row.rank), static_cast<uint32_t>(row.pid),
             static_cast<uint32_t>(row.tid), static_cast<uint32_t>(row.step), static_cast<uint32_t>(row.launch),
             static_cast<uint16_t>(row.stream), static_cast<uint8_t>(row.device), static_cast<uint8_t>(row.type)});
      });
      if (!path.empty())
        turnstile.pass(r, [&] { good = good && file.write(buffer.data(), buffer.size() * sizeof(RawRow)).ok(); });
    });
  }
  volatile uint64_t keep = sums[0] + sums[1];
  (void)keep;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) {
  using namespace tracesmith;
  using namespace tracesmith::bench;
  usage(argc, argv, "write_bench [--events N] [--ranks R] [--rounds K] [--dir D] [--json OUT] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  sim::JobConfig config;
  config.events = std::stoull(option(argc, argv, "--events", smoke ? "200000" : "20000000"));
  config.ranks = std::stoi(option(argc, argv, "--ranks", smoke ? "16" : "512"));
  const int rounds = std::stoi(option(argc, argv, "--rounds", smoke ? "1" : "3"));
  const std::string dir = option(argc, argv, "--dir", std::filesystem::temp_directory_path());
  const std::string raw = dir + "/write_bench.raw", sbt = dir + "/write_bench.sbt",
                    strings = dir + "/write_bench.strings";
  std::vector<double> ratio, gen_cpu, raw_cpu, sbt_cpu, sbt_wall, sbt_mb;
  for (int i = 0; i < rounds; ++i) {
    Cost g = measure([&] { return rawRows(config, "", strings); });
    Cost r = measure([&] { return rawRows(config, raw, strings); });
    Cost s = measure([&] { return sim::synthesize(config, sbt, 2) ? 0 : 1; });
    gen_cpu.push_back(g.cpu_s);
    raw_cpu.push_back(r.cpu_s);
    sbt_cpu.push_back(s.cpu_s);
    sbt_wall.push_back(s.wall_s);
    sbt_mb.push_back(s.peak_mb);
    ratio.push_back(s.cpu_s / r.cpu_s);
    std::printf("round %d: rows only %.2f s, raw %.2f s, SBT %.2f s CPU (%.2f s wall, %.0f MB)  ratio %.2f\n", i + 1,
                g.cpu_s, r.cpu_s, s.cpu_s, s.wall_s, s.peak_mb, ratio.back());
  }
  const auto events = static_cast<double>(config.events);
  const double raw_bytes = static_cast<double>(std::filesystem::file_size(raw)) / events,
               sbt_bytes = static_cast<double>(std::filesystem::file_size(sbt)) / events;
  for (const std::string& f : {raw, sbt, strings}) std::filesystem::remove(f);
  std::printf(
      "%s events of %d ranks, median of %d: SBT / raw CPU %.2f (spread %.2f–%.2f); without making the rows %.2f\n",
      humanCount(config.events).c_str(), config.ranks, rounds, median(ratio),
      *std::min_element(ratio.begin(), ratio.end()), *std::max_element(ratio.begin(), ratio.end()),
      (median(sbt_cpu) - median(gen_cpu)) / (median(raw_cpu) - median(gen_cpu)));
  std::printf("SBT %.2f bytes/event (raw %.0f), %.1f million events/s, %.0f ns CPU/event, peak %.0f MB\n", sbt_bytes,
              raw_bytes, events / median(sbt_wall) / 1e6, median(sbt_cpu) / events * 1e9,
              *std::max_element(sbt_mb.begin(), sbt_mb.end()));
  if (std::string out = option(argc, argv, "--json", ""); !out.empty()) {
    std::string json;
    JsonWriter w(json);
    w.beginObject()
        .field("events", config.events)
        .field("ranks", config.ranks)
        .field("cpu_ratio_to_raw", median(ratio))
        .field("bytes_per_event", sbt_bytes);
    w.field("events_per_s", events / median(sbt_wall))
        .field("cpu_ns_per_event", median(sbt_cpu) / events * 1e9)
        .field("peak_mb", median(sbt_mb))
        .endObject();
    if (Result<File> f = File::create(out); !f || !f->write(json + "\n")) return 1;
  }
  return 0;
}
