#include "analysis/live/watcher.hpp"

namespace tracesmith::analysis::live {

constexpr int64_t kSlowTellNs = 60'000'000'000;  // a rank that is at work may make the others wait so long

void Watcher::take(const NodeReport& report, int64_t now_ns) {
  hang_.take(report, now_ns);
  slow_.take(report, now_ns);
}

std::vector<Alert> Watcher::look(int64_t now_ns) {
  std::vector<Alert> alerts = slow_.look(now_ns);
  HangVerdict verdict = hang_.look(now_ns);
  const bool hangs = verdict.state == HangState::hang, hung = verdict_.state == HangState::hang;
  if (hangs && !hung) alerts.push_back({now_ns, "hang", "critical", verdict.text});
  if (!hangs && hung) alerts.push_back({now_ns, "resolved", "info", "the job is running again"});
  if (verdict.state != HangState::slow) told_ = false;
  if (verdict.state == HangState::slow && !told_ && now_ns - verdict.since_ns > kSlowTellNs) {
    told_ = true;
    if (verdict.at_files)  // it does what it should, and takes long
      alerts.push_back({now_ns, "slow_step", "info", verdict.text});
    else
      alerts.push_back({now_ns, "slow_rank", "warning", verdict.text});
  }
  verdict_ = std::move(verdict);
  return alerts;
}

}  // namespace tracesmith::analysis::live
