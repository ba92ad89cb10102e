// How long the page waits for its metrics: a trace with three metrics of 512 GPUs, an hour at 1 Hz, asked for over HTTP
// as the page asks. --keep leaves the trace, to be looked at with `tracesmith view FILE --web`.
#include <httplib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "measure.hpp"
#include "tracesmith/trace/writer.hpp"

using namespace tracesmith;
using namespace tracesmith::bench;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* kMetrics[] = {"gpu_utilization_percent", "gpu_power_watts", "gpu_sm_clock_mhz"};

/// Steps of a minute, a slow GPU, a node that is missing for a while.
double valueOf(int metric, int gpu, int second, std::mt19937& random) {
  const double noise = static_cast<double>(random() % 1000) / 1000;
  const double wave = 0.5 + 0.5 * std::sin(second * 2 * 3.14159 / 60 + gpu * 0.01);
  const double slow = gpu % 97 == 13 ? 0.7 : 1;
  if (metric == 0) return std::min(100.0, slow * (70 + 25 * wave + 5 * noise));
  if (metric == 1) return slow * (350 + 250 * wave + 20 * noise);
  return slow < 1 ? 1200 : 1980 - 15 * std::floor(4 * noise);
}

Status write(const std::string& path, int gpus, int seconds) {
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path);
  if (!writer) return writer.status();
  auto out = (*writer)->appender();
  std::mt19937 random(1);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    trace::DeviceRow device;
    device.node = (*writer)->string("node" + std::to_string(gpu / 8));
    device.device = gpu % 8;
    device.name = (*writer)->string("Simulated H100");
    TS_TRY(out->append(device));
  }
  for (int second = 0; second < seconds; ++second)
    for (int gpu = 0; gpu < gpus; ++gpu)
      for (int metric = 0; metric < 3; ++metric) {
        if (gpu / 8 == 3 && second > seconds / 3 && second < seconds / 3 + 200) continue;
        trace::MetricRow row;
        row.ts = 1'700'000'000'000'000'000 + second * 1'000'000'000LL + gpu * 1000;
        row.node = (*writer)->string("node" + std::to_string(gpu / 8));
        row.device = gpu % 8;
        row.name = (*writer)->string(kMetrics[metric]);
        row.value = std::bit_cast<int64_t>(valueOf(metric, gpu, second, random));
        TS_TRY(out->append(row));
      }
  TS_TRY(out->flush());
  out.reset();
  return (*writer)->close();
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "metrics_bench [--gpus N] [--seconds N] [--keep FILE] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const int gpus = std::stoi(option(argc, argv, "--gpus", smoke ? "16" : "512"));
  const int seconds = std::stoi(option(argc, argv, "--seconds", smoke ? "60" : "3600"));
  char pattern[] = "/tmp/tracesmith-bench-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  const std::string path = option(argc, argv, "--keep", dir + "/metrics.sbt");
  if (Status s = write(path, gpus, seconds); !s) {
    std::fprintf(stderr, "%s\n", s.message().c_str());
    return 1;
  }
  const int port = 20000 + ::getpid() % 20000;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)!::freopen("/dev/null", "w", stdout);
    ::execl(TRACESMITH_BIN, TRACESMITH_BIN, "view", path.c_str(), "--web", "--port", std::to_string(port).c_str(),
            nullptr);
    ::_exit(127);
  }
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(60);
  for (int i = 0; i < 300; ++i) {
    auto r = client.Get("/api/v1/traces/file/timeline");
    if (r && r->status == 200) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::string from = std::to_string(1'700'000'000'000'000'000 + seconds / 2 * 1'000'000'000LL);
  std::string to = std::to_string(1'700'000'000'000'000'000 + (seconds / 2 + seconds / 12) * 1'000'000'000LL);
  for (const std::string& window : {std::string(), "&from=" + from + "&to=" + to})
    for (const char* metric : kMetrics) {
      double took[3];
      size_t bytes = 0;
      for (double& t : took) {
        const auto began = Clock::now();
        auto r = client.Get(std::string("/api/v1/metrics/series?points=586&metric=") + metric + window);
        t = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
        if (!r || r->status != 200) std::fprintf(stderr, "%s failed\n", metric);
        bytes = r ? r->body.size() : 0;
      }
      std::printf("%d GPUs, %s of %d s, %s: first %.0f ms, then %.0f and %.0f ms; %.0f kB\n", gpus,
                  window.empty() ? "all" : "a twelfth", seconds, metric, took[0], took[1], took[2],
                  static_cast<double>(bytes) / 1e3);
    }
  ::kill(child, SIGTERM);
  ::waitpid(child, nullptr, 0);
  (void)std::system(("rm -rf " + dir).c_str());
}
