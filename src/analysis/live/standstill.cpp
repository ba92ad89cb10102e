#include "analysis/live/standstill.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr double kFilesPerS = 1e6;  // bytes; logs are less
constexpr double kBusyPercent = 50;

/// Whether any GPU of a node works, as far as its hardware tells.
std::optional<bool> gpuBusy(const NodeReport& node) {
  std::optional<bool> busy;
  for (const GpuState& gpu : node.gpus)
    for (const Metric& m : gpu.metrics)
      if (m.name == "gpu_utilization_percent" && m.value) busy = busy.value_or(false) || *m.value >= kBusyPercent;
  return busy;
}

/// The last collective that a rank has launched on a communicator; nothing if its end, or that of a later one, was
/// seen.
const OpProgress* lastOf(const CommState& comm) {
  const OpProgress* last = nullptr;
  for (const OpProgress& o : comm.ops)
    if (o.peer < 0 && (!last || o.entered > last->entered)) last = &o;
  for (const OpProgress& o : comm.ops)
    if (last && o.peer < 0 && o.completed && *o.completed >= last->entered) return nullptr;
  return last;
}

bool working(const ProcessReport& p) {
  return p.state == ProcessState::running && p.io_bytes_per_s.value_or(0) <= kFilesPerS;
}

/// A communicator and the last collective its ranks have launched.
struct Group {
  const CommState* comm = nullptr;
  const OpProgress* last = nullptr;
  std::vector<int32_t> ranks;
  std::optional<int64_t> bytes;
};

}  // namespace

std::optional<Standstill> findStandstill(const std::vector<Heard>& nodes) {
  Standstill s;
  s.in_step = true;
  s.gpus_busy = true;
  s.waited_ns = INT64_MAX;
  std::map<uint64_t, Group> groups;
  for (const Heard& heard : nodes) {
    bool takes_part = false;
    for (const ProcessReport& p : heard.report->processes) {
      if (p.comms.empty()) continue;
      if (!working(p) || p.in_flight.empty()) return {};
      takes_part = true;
      int64_t newest = INT64_MAX;
      for (const InFlight& f : p.in_flight) {
        if (!f.unseen) return {};
        newest = std::min(newest, f.age_ns);
      }
      s.in_step &= p.step.has_value();
      s.at_ns = std::max(s.at_ns, heard.at_ns - newest);
      s.waited_ns = std::min(s.waited_ns, newest);
      for (const CommState& c : p.comms) {
        const OpProgress* last = lastOf(c);
        auto [it, fresh] = groups.try_emplace(c.comm, Group{&c, last, {}, {}});
        Group& g = it->second;
        if (!last != !g.last || (last && (last->op != g.last->op || last->entered != g.last->entered))) return {};
        g.ranks.push_back(p.rank);
        for (const InFlight& f : p.in_flight)
          if (last && f.comm == c.comm && f.seq == last->entered && f.op == last->op && !p.counted_ns)
            g.bytes = f.bytes;
      }
    }
    if (!takes_part || !s.gpus_busy) continue;
    const std::optional<bool> busy = gpuBusy(*heard.report);
    s.gpus_busy = busy ? std::optional(*s.gpus_busy && *busy) : std::nullopt;
  }
  const Group* largest = nullptr;
  for (const auto& [comm, g] : groups) {
    if (!g.last || g.comm->size < 2) continue;
    if (static_cast<int32_t>(g.ranks.size()) < g.comm->size) return {};  // of the others nothing is known
    if (!largest || g.ranks.size() > largest->ranks.size()) largest = &g;
  }
  if (!largest) return {};
  s.op = largest->last->op;
  s.seq = largest->last->entered;
  s.comm = largest->comm->comm;
  s.comm_name = largest->comm->name;
  s.bytes = largest->bytes;
  s.ranks = largest->ranks;
  std::sort(s.ranks.begin(), s.ranks.end());
  return s;
}

void describeStandstill(const Standstill& s, HangVerdict& verdict) {
  const std::string comm =
      (s.comm_name.empty() ? "" : s.comm_name + " ") + "(" + commName(s.comm) + ", " +
      (s.bytes ? humanBytes(static_cast<uint64_t>(std::max<int64_t>(0, *s.bytes))) : "by NCCL's own count") + ")";
  verdict.state = HangState::hang;
  verdict.since_ns = s.at_ns;
  verdict.confidence = s.gpus_busy.value_or(false) ? 0.6 : 0.4;
  verdict.verdict = "all " + std::to_string(s.ranks.size()) + " ranks have launched " + s.op + " " +
                    std::to_string(s.seq) + " of " + comm + " and nothing since, for " +
                    humanNs(static_cast<double>(s.waited_ns)) + ": nobody is missing, suspect a GPU or a link" +
                    (!s.gpus_busy   ? ""
                     : *s.gpus_busy ? "; GPUs are busy on every node"
                                    : "; the GPUs of a node are idle") +
                    "; when it ran is not recorded";
  StuckOp op;
  op.comm = commName(s.comm);
  op.op = s.op;
  op.seq = s.seq;
  op.ranks = static_cast<int32_t>(s.ranks.size());
  op.entered = s.ranks;
  op.bytes = s.bytes;
  op.age_s = static_cast<double>(s.waited_ns) * 1e-9;
  verdict.communicators.push_back(std::move(op));
}

}  // namespace tracesmith::analysis::live
