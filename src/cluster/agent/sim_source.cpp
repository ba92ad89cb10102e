#include "cluster/agent/sim_source.hpp"

#include <time.h>

#include "base/clock.hpp"

namespace tracesmith::cluster {

Result<std::unique_ptr<SimulatedNode>> SimulatedNode::start(const AgentOptions& options, const std::string& node) {
  std::unique_ptr<SimulatedNode> simulated(new SimulatedNode());
  sim::LiveConfig config;
  config.job.ranks = options.sim_ranks > 0 ? options.sim_ranks : options.sim_gpus;
  config.job.gpus_per_node = options.sim_gpus;
  config.first_rank = options.sim_first_rank;
  config.ranks_here = options.sim_gpus;
  config.host = node;
  config.folder = options.ring_folder;
  for (const std::string& fault : options.sim_faults) TS_TRY(sim::addFault(config.job.faults, fault));
  if (options.sim_start > 0) {
    const auto now = static_cast<int64_t>(ring::nowNs());
    const int64_t start = static_cast<int64_t>(options.sim_start) * 1'000'000'000 - unixMinusRaw();
    const int64_t since = now - start;
    if (since < -60'000'000'000 || since > 600'000'000'000)
      return Status::invalid(
          "the simulated job starts more than a minute from now, or started more than 10 minutes ago");
    config.start_ns = static_cast<uint64_t>(start);
  }
  Result<std::unique_ptr<sim::LiveJob>> job = sim::LiveJob::create(config);
  if (!job) return job.status();
  simulated->job_ = std::move(*job);
  simulated->thread_ = std::thread([s = simulated.get()] { s->job_->run(s->stop_); });
  return simulated;
}

SimulatedNode::~SimulatedNode() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace tracesmith::cluster
