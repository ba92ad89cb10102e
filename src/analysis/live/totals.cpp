#include "analysis/live/totals.hpp"

#include <algorithm>

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kForgetNs = 60'000'000'000;  // a process that tells nothing
constexpr int64_t kWindowNs = 15'000'000'000;  // of transfers: a scrape every 15 s sees all of them
constexpr size_t kMostTransfers = 20'000;

}  // namespace

void Totals::take(const NodeReport& report, int64_t now_ns) {
  for (const ProcessReport& p : report.processes) {
    if (p.state != ProcessState::running && p.state != ProcessState::stopped) continue;
    RankTotal& total = ranks_[{report.node, p.pid}];
    total.node = report.node;
    total.pid = p.pid;
    total.rank = p.rank;
    total.role = p.role;
    total.simulated = p.simulated;
    total.seen_ns = now_ns;
    for (const StepTime& s : p.steps) {
      const double seconds = static_cast<double>(s.duration_ns) * 1e-9;
      ++total.steps;
      total.step_seconds += seconds;
      total.last_step_seconds = seconds;
      if (s.comm_ns)
        total.communication_seconds = total.communication_seconds.value_or(0) + static_cast<double>(*s.comm_ns) * 1e-9;
    }
    takeTransfers(p, total, now_ns);
  }
  std::erase_if(ranks_, [&](const auto& r) { return now_ns - r.second.seen_ns > kForgetNs; });
  std::erase_if(transfers_, [&](const auto& t) { return now_ns - t.second.seen_ns > kForgetNs; });
}

void Totals::takeTransfers(const ProcessReport& p, RankTotal& total, int64_t now_ns) {
  for (const CommState& c : p.comms)
    for (const Transfers& t : c.transfers) {
      const double moved = static_cast<double>(std::max<int64_t>(0, t.bytes)) * t.count;
      OperationTotal& operation = total.operations[t.op];
      operation.count += t.count;
      operation.bytes += moved;
      operation.seconds += static_cast<double>(t.total_ns) * 1e-9;
      if (t.shortest_ns <= 0 || t.bytes <= 0 || t.peer >= 0) continue;  // of a send, half is waiting for the receiver
      const TransferKey key{c.comm, t.op, t.bytes};
      if (transfers_.size() >= kMostTransfers && !transfers_.contains(key)) continue;
      Transfer& transfer = transfers_[key];
      if (!c.name.empty()) transfer.name = c.name;
      transfer.size = c.size;
      transfer.simulated = p.simulated;
      transfer.seen_ns = now_ns;
      transfer.moved += moved;
      if (now_ns - transfer.window_ns > kWindowNs) {
        transfer.before_ns = std::exchange(transfer.shortest_ns, 0);
        transfer.window_ns = now_ns;
      }
      transfer.shortest_ns = transfer.shortest_ns == 0 ? t.shortest_ns : std::min(transfer.shortest_ns, t.shortest_ns);
    }
}

void Totals::forget(const std::string& node) {
  std::erase_if(ranks_, [&](const auto& r) { return r.first.first == node; });
}

std::vector<RankTotal> Totals::ranks() const {
  std::vector<RankTotal> all;
  for (const auto& [key, total] : ranks_) all.push_back(total);
  return all;
}

std::vector<TransferRate> Totals::transfers(int64_t now_ns) const {
  std::vector<TransferRate> rates;
  double most = 0;
  for (const auto& [key, t] : transfers_) {  // those of one communicator and operation lie side by side
    if (now_ns - t.seen_ns > 2 * kWindowNs) continue;
    const bool same = !rates.empty() && rates.back().comm == key.comm && rates.back().op == key.op;
    if (same && t.moved <= most) continue;
    most = t.moved;
    const int64_t shortest = t.before_ns == 0 ? t.shortest_ns : std::min(t.before_ns, t.shortest_ns);
    TransferRate rate{key.comm,
                      t.name,
                      key.op,
                      t.size,
                      t.simulated,
                      static_cast<double>(key.bytes),
                      static_cast<double>(shortest) * 1e-9};
    if (same)
      rates.back() = std::move(rate);
    else
      rates.push_back(std::move(rate));
  }
  return rates;
}

}  // namespace tracesmith::analysis::live
