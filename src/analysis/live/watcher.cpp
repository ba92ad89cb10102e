#include "analysis/live/watcher.hpp"

namespace tracesmith::analysis::live {

void Watcher::take(const NodeReport& report, int64_t now_ns) { hang_.take(report, now_ns); }

std::vector<Alert> Watcher::look(int64_t now_ns) {
  std::vector<Alert> alerts;
  HangVerdict verdict = hang_.look(now_ns);
  if (verdict.state == HangState::hang && verdict_.state != HangState::hang)
    alerts.push_back({now_ns, "hang", "critical", verdict.text});
  if (verdict.state != HangState::hang && verdict_.state == HangState::hang)
    alerts.push_back({now_ns, "resolved", "info", "the job goes on"});
  verdict_ = std::move(verdict);
  return alerts;
}

}  // namespace tracesmith::analysis::live
