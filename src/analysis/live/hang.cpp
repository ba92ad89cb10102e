#include "analysis/live/hang.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/live/hang_text.hpp"
#include "analysis/live/standstill.hpp"
#include "analysis/live/wait_graph.hpp"

namespace tracesmith::analysis::live {

constexpr int64_t kToldLaterNs = 4'000'000'000;  // kernels that ended come with the reports of the next seconds
constexpr size_t kMostSizes = 64, kMostComms = 100'000;

void HangDetector::take(const NodeReport& report, int64_t now_ns) {
  if (faded_ns_ != 0 && now_ns > faded_ns_) {
    const double left =
        std::exp2(-static_cast<double>(now_ns - faded_ns_) / static_cast<double>(options_.half_life_ns));
    longest_wait_ns_ *= left;
    longest_step_ns_ *= left;
    longest_pause_ns_ *= left;
  }
  faded_ns_ = now_ns;
  for (const ProcessReport& p : report.processes) {
    if (now_ns >= explained_ns_) learn(static_cast<double>(p.longest_wait_ns));
    for (const StepTime& step : p.steps)
      longest_step_ns_ = std::max(longest_step_ns_, static_cast<double>(step.duration_ns));
    for (const CommState& c : p.comms)
      for (const Transfers& t : c.transfers) {
        std::set<int64_t>& sizes = sizes_[{c.comm, t.op}];
        if (sizes.size() < kMostSizes) sizes.insert(t.bytes);
      }
  }
  if (sizes_.size() > kMostComms) sizes_.clear();
  nodes_[report.node] = {report, now_ns};
}

void HangDetector::learn(double wait_ns) {
  longest_wait_ns_ =
      std::max(longest_wait_ns_, std::min(wait_ns, static_cast<double>(options_.most_ns) / options_.waits));
}

int64_t HangDetector::thresholdNs() const {
  return std::clamp(static_cast<int64_t>(options_.waits * longest_wait_ns_), options_.least_ns, options_.most_ns);
}

/// Where the GPU is not recorded and nobody is missing. Inside a step, many of the longest steps are too long unless
/// the GPUs are idle; without steps only busy GPUs tell a standstill from work on the host.
void HangDetector::lookForStandstill(int64_t now_ns, HangVerdict& verdict) {
  std::vector<Heard> nodes;
  for (const auto& [name, node] : nodes_) {
    if (now_ns - node.at_ns > options_.silent_ns) return;
    nodes.push_back({&node.report, node.at_ns});
  }
  const std::optional<Standstill> s = findStandstill(nodes);
  if (!s) return;
  if (s->waited_ns < pause_ns_)  // it ended by itself
    longest_pause_ns_ = std::max(longest_pause_ns_, static_cast<double>(pause_ns_));
  pause_ns_ = s->waited_ns;
  const bool suspect = s->in_step ? s->gpus_busy.value_or(true) : longest_step_ns_ == 0 && s->gpus_busy.value_or(false);
  const double least = s->in_step
                           ? std::max(static_cast<double>(options_.ahead_ns), options_.ahead_steps * longest_step_ns_)
                           : static_cast<double>(options_.most_ns);
  if (suspect && static_cast<double>(s->waited_ns) >= std::max(least, options_.waits * longest_pause_ns_))
    describeStandstill(*s, verdict);
}

HangVerdict HangDetector::look(int64_t now_ns) {
  WaitGraph graph;
  for (const auto& [name, node] : nodes_)
    graph.add(node.report, node.at_ns, now_ns - node.at_ns > options_.silent_ns ? now_ns : 0);
  graph.build();
  HangVerdict verdict;
  verdict.state = graph.ranks().empty() ? HangState::unknown : HangState::ok;
  verdict.verdict = graph.ranks().empty() ? "no process of a job found" : "no rank has been waiting for long";
  const int64_t threshold = thresholdNs();
  int64_t waits = 0;
  for (const WaitGraph::Op& op : graph.ops()) waits = std::max(waits, op.waited_ns);
  if (waits < waits_ns_ && now_ns >= explained_ns_)
    learn(static_cast<double>(waits_ns_));  // what ended by itself was no hang
  waits_ns_ = waits;
  std::vector<const WaitGraph::Op*> stuck;
  for (const WaitGraph::Op& op : graph.ops()) {
    int64_t most = op.by_bytes.size() > 1 ? options_.mismatch_ns
                   : op.first             ? std::max(threshold, options_.first_ns)
                                          : threshold;
    if (op.unseen)
      most = std::max(threshold, longest_step_ns_ > 0 ? static_cast<int64_t>(options_.ahead_steps * longest_step_ns_)
                                                      : options_.ahead_ns);
    if (op.waited_ns >= most) stuck.push_back(&op);
  }
  if (!stuck.empty())
    describeHang(graph, stuck, {options_.host_ns, sizes_}, verdict);
  else
    lookForStandstill(now_ns, verdict);
  // A wait for a checkpoint says nothing about how long waits for anything else may be.
  if (verdict.state == HangState::slow && verdict.at_files) explained_ns_ = now_ns + kToldLaterNs;
  return verdict;
}

}  // namespace tracesmith::analysis::live
