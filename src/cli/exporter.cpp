// tracesmith exporter: this node's hardware for Prometheus.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/http_get.hpp"
#include "capture/collect/training_now.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/places.hpp"
#include "hardware/latest.hpp"
#include "hardware/nvidia/source.hpp"
#include "model/rank_metrics.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  hardware::SamplerOptions sampler;
  std::string bind = "127.0.0.1";
  int port = 9835;
};

HttpGetServer* g_server = nullptr;  // for the signal handler

MetricSet metricsOf(const hardware::Latest& latest, int64_t stale_ns, capture::ProcessesNow& processes) {
  MetricSet metrics = hardware::metricsOf(latest.state(), stale_ns);
  std::vector<model::RankNow> ranks;
  for (const capture::ProcessNow& p : processes.read()) {
    model::RankNow& r = ranks.emplace_back();
    r.labels = model::rankLabels(p.pid, p.rank, p.role, p.simulated);
    if (p.step) r.step = p.step->number, r.step_age_ns = p.step->age_ns;
    r.rates = p.rates;
  }
  model::addRankMetrics(metrics, ranks);
  return metrics;
}

int run(const Options& o) {
  for (const std::string& name : o.sampler.nvml_fields)
    if (hardware::nvmlField(name) < 0) return usage("exporter", "NVML has no field '" + name + "'");
  hardware::Latest latest;
  capture::ProcessesNow processes;  // asked by one thread: the server answers one after the other
  const int64_t stale_ns = std::max<int64_t>(5, 3 * o.sampler.slow_ms / 1000) * 1'000'000'000;
  HttpGetServer server([&](const std::string& path) -> HttpAnswer {
    if (path == "/metrics")
      return {200, "text/plain; version=0.0.4; charset=utf-8", prometheusText(metricsOf(latest, stale_ns, processes))};
    if (path == "/healthz") return {200, "text/plain", latest.state().found ? "ok\n" : "starting\n"};
    if (path == "/") return {200, "text/html", "<h1>TraceSmith exporter</h1><p><a href=\"/metrics\">metrics</a></p>\n"};
    return {404, "text/plain", "not found; try /metrics or /healthz\n"};
  });
  if (Status s = server.listen(o.bind, o.port); !s) return fail(s);
  hardware::Sampler sampler(o.sampler, latest);
  g_server = &server;
  for (int n : {SIGINT, SIGTERM})
    ::signal(n, [](int) {
      if (g_server) g_server->stop();
    });
  sampler.start();
  (void)sampler.waitForInventory(o.sampler.hang_ms);
  std::printf("listening on http://%s:%d/metrics\n", o.bind.c_str(), server.port());
  std::fflush(stdout);
  const Status served = server.serve();
  g_server = nullptr;
  sampler.stop();
  return served ? 0 : fail(served);
}

}  // namespace

void addExporter(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("exporter", "Serve this machine's telemetry to Prometheus");
  addPlaces(command, o->sampler.places);
  command.option("--port", o->port, "Port to listen on; 0 picks a free one").showDefault().check(range(0, 65535));
  command.option("--bind", o->bind, "Address to listen on; 0.0.0.0 lets every machine read the metrics").showDefault();
  o->sampler.fast_ms = 1000;  // Prometheus scrapes every 15 s or so
  command.option("--interval", o->sampler.fast_ms, "Interval between readings of cheap metrics, in ms")
      .showDefault()
      .check(range(20, 60000));
  command.option("--slow-interval", o->sampler.slow_ms, "Interval between readings of expensive metrics, in ms")
      .showDefault()
      .check(range(100, 600000));
  command.option("--nvml-field", o->sampler.nvml_fields, "Additional NVML field, by name; can be repeated")
      .type("NAME");
  command.footer(
      "Metrics are named tracesmith_gpu_…, tracesmith_host_… and tracesmith_rdma_…, in base units. "
      "tracesmith_gpu_info\nhas the model, the vendor and whether a GPU is simulated. tracesmith_rank_… say which step "
      "recorded processes are in\nand how fast they train. deploy/grafana has a "
      "dashboard.\n\nExample:  tracesmith exporter --port 9835 &\n          curl -s localhost:9835/metrics | grep "
      "gpu_power");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
