// What watching costs: 8 simulated GPUs and the host at 10 Hz, written into a trace, in a process of its own.
// The baseline is the same process that only waits.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/file.hpp"
#include "base/text.hpp"
#include "hardware/node/recorder.hpp"
#include "measure.hpp"

namespace {

using namespace tracesmith;
using namespace tracesmith::bench;

int watch(int gpus, int fast_ms, bool adaptive, double seconds, const std::string& path, bool idle) {
  if (idle) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return 0;
  }
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path);
  if (!writer) return 1;
  hardware::SamplerOptions o;
  o.places.simulated_gpus = gpus;
  o.fast_ms = fast_ms;
  o.adaptive = adaptive;
  hardware::TelemetryRecorder recorder(**writer, o);
  recorder.start();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  if (!recorder.stop()) return 1;
  std::printf("    %s samples, %s readings missed\n", humanCount(recorder.stats().samples).c_str(),
              humanCount(recorder.stats().missed).c_str());
  std::fflush(stdout);
  return (*writer)->close() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "sampler_bench [--gpus 8] [--fast-ms 100] [--seconds 30] [--out FILE.sbt] [--json OUT] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const int gpus = std::stoi(option(argc, argv, "--gpus", "8"));
  const int fast_ms = std::stoi(option(argc, argv, "--fast-ms", "100"));
  const double seconds = std::stod(option(argc, argv, "--seconds", smoke ? "2" : "30"));
  const std::string path = option(argc, argv, "--out", "/tmp/sampler_bench." + std::to_string(::getpid()) + ".sbt");
  struct {
    const char* name;
    bool adaptive, idle;
    Cost cost;
  } runs[] = {
      {"waiting only", false, true, {}}, {"sampling", false, false, {}}, {"sampling, adaptive", true, false, {}}};
  for (auto& r : runs) {
    r.cost = measure([&] { return watch(gpus, fast_ms, r.adaptive, seconds, path, r.idle); });
    std::printf("  %-20s %6.3f %% of one core, %5.1f MB resident at most\n", r.name, 100 * r.cost.cpu_s / r.cost.wall_s,
                r.cost.peak_mb);
  }
  std::remove(path.c_str());
  const double percent = 100 * (runs[1].cost.cpu_s - runs[0].cost.cpu_s) / runs[1].cost.wall_s;
  const bool met = percent <= 0.5 && runs[1].cost.peak_mb <= 25;
  std::printf("%d simulated GPUs and the host every %d ms: %.3f %% of one core, %.1f MB; bars 0.5 %%, 25 MB: %s\n",
              gpus, fast_ms, percent, runs[1].cost.peak_mb, met ? "met" : "NOT met");
  if (std::string out = option(argc, argv, "--json", ""); !out.empty()) {
    std::string json;
    JsonWriter w(json);
    w.beginObject().field("gpus", gpus).field("fast_ms", fast_ms).field("core_percent", percent);
    w.field("resident_mb", runs[1].cost.peak_mb).field("waiting_mb", runs[0].cost.peak_mb);
    w.field("adaptive_core_percent", 100 * (runs[2].cost.cpu_s - runs[0].cost.cpu_s) / runs[2].cost.wall_s).endObject();
    if (Result<File> f = File::create(out); !f || !f->write(json + "\n")) return 1;
  }
  return 0;
}
