#include "analysis/live/watcher.hpp"

#include "base/text.hpp"

namespace tracesmith::analysis::live {

constexpr int64_t kSlowTellNs = 60'000'000'000;  // a rank that is at work may make the others wait so long

void Watcher::take(const NodeReport& report, int64_t now_ns) {
  heard_[report.node] = {now_ns, false};
  hang_.take(report, now_ns);
  slow_.take(report, now_ns);
  versions_.take(report, now_ns);
  totals_.take(report, now_ns);
}

std::vector<Alert> Watcher::look(int64_t now_ns) {
  std::vector<Alert> alerts = slow_.look(now_ns);
  for (Alert& alert : versions_.look(now_ns)) alerts.push_back(std::move(alert));
  HangVerdict verdict = hang_.look(now_ns);
  const bool hangs = verdict.state == HangState::hang, hung = verdict_.state == HangState::hang;
  if (hangs && !hung) alerts.push_back(alertOf(now_ns, AlertKind::hang, verdict.verdict));
  if (!hangs && hung) alerts.push_back(alertOf(now_ns, AlertKind::resolved, "the job is running again"));
  if (verdict.state != HangState::slow) told_ = false;
  if (verdict.state == HangState::slow && !told_ && now_ns - verdict.since_ns > kSlowTellNs) {
    told_ = true;
    if (verdict.at_files)  // it does what it should, and takes long
      alerts.push_back(alertOf(now_ns, AlertKind::slow_step, verdict.verdict));
    else
      alerts.push_back(alertOf(now_ns, AlertKind::slow_rank, verdict.verdict));
  }
  for (auto& [node, heard] : heard_) {
    if (heard.missed || now_ns - heard.at_ns <= silent_ns_) continue;
    heard.missed = true;
    alerts.push_back(
        alertOf(now_ns, AlertKind::silent_node,
                "node " + node + " has been silent for " + humanNs(static_cast<double>(now_ns - heard.at_ns))));
  }
  verdict_ = std::move(verdict);
  return alerts;
}

}  // namespace tracesmith::analysis::live
