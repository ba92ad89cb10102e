// The cluster for Prometheus.
#include "base/metric_set.hpp"
#include "server/handlers/handlers.hpp"

namespace tracesmith::server {
namespace {

class PrometheusHandlers final : public Handlers {
 public:
  explicit PrometheusHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer prometheus(const Request& r);

  const Sources& sources_;
};

std::vector<Route> PrometheusHandlers::routes() {
  return {
      {"GET",
       "/metrics",
       kViewer,
       "Metrics of the cluster for Prometheus",
       {},
       bind(this, &PrometheusHandlers::prometheus)},
  };
}

Answer PrometheusHandlers::prometheus(const Request&) {
  MetricSet metrics;
  if (sources_.cluster) {
    Result<MetricSet> cluster = sources_.cluster->client().metrics();
    if (!cluster) return Answer::error(cluster.status());
    metrics = std::move(*cluster);
  }
  metrics.begin("tracesmith_http_requests_total", MetricType::counter, "requests answered");
  metrics.value({}, static_cast<double>(sources_.requests.load()));
  metrics.begin("tracesmith_http_event_streams", MetricType::gauge, "open event streams");
  metrics.value({}, static_cast<double>(sources_.live.listeners().load()));
  Answer a;
  a.type = "text/plain; version=0.0.4; charset=utf-8";
  a.body = prometheusText(metrics);
  return a;
}

}  // namespace

std::unique_ptr<Handlers> makePrometheusHandlers(const Sources& sources) {
  return std::make_unique<PrometheusHandlers>(sources);
}

}  // namespace tracesmith::server
