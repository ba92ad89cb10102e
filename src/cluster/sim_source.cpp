#include "cluster/sim_source.hpp"

namespace tracesmith::cluster {

Result<std::unique_ptr<SimulatedNode>> SimulatedNode::start(int gpus, const std::string& node,
                                                            const std::string& ring_folder) {
  std::unique_ptr<SimulatedNode> simulated(new SimulatedNode());
  sim::LiveConfig config;
  config.job.ranks = config.job.gpus_per_node = gpus;
  config.host = node;
  config.folder = ring_folder;
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
