// Operations of libraries that use no device, such as gloo, as the hooks record them: when they began and ended on the
// host.
#include <algorithm>

#include "cluster/agent/live_rings.hpp"
#include "model/operation.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;
using ring::HostOperationRecord;

namespace {

constexpr uint32_t kHostStreams = 1u << 31;  // each group goes by a stream of its own
constexpr size_t kMostInFlight = 256;        // as many as a report may have
constexpr uint64_t kDeadNs = 60'000'000'000;

/// The same number on all ranks of a group: groups have names, which other jobs use, too.
uint64_t groupOf(std::string_view job, std::string_view group, uint32_t size) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  auto add = [&hash](unsigned char c) { hash = (hash ^ c) * 0x100000001b3; };
  for (std::string_view text : {job, group}) {
    for (char c : text) add(static_cast<unsigned char>(c));
    add(0);
  }
  for (int i = 0; i < 4; ++i) add(static_cast<unsigned char>(size >> (8 * i)));
  return hash;
}

bool isPair(std::string_view op) { return op == "send" || op == "recv"; }

}  // namespace

void RingFollower::takeHost(const HostOperationRecord& r) {
  const std::string_view job = ring_->string(ring_->header().job.load()), op = ring_->string(r.op);
  // Without the job's name nobody knows whose group it is.
  if (job.empty() || op.empty() || r.sequence == ring::kUnknown) return;
  const uint64_t hash = groupOf(job, ring_->string(r.group), r.ranks);
  Comm& c = comm(hash);
  c.state.name = ring_->string(r.group);
  if (r.rank >= 0) c.state.group_rank = r.rank;
  if (r.ranks) c.state.size = static_cast<int32_t>(r.ranks);
  OpProgress& p = progress(c, r.op, isPair(op) ? r.peer : -1);
  p.entered = std::max(p.entered, r.sequence);
  HostGroup& group = host_[hash];
  if (host_.size() > kMostComms) {
    ++left_out_;
    host_.erase(hash);
    return;
  }
  if (r.end == 0) {
    group.open.push_back(r);
    if (group.open.size() > kMostPerStream) group.open.pop_front();
    return;
  }
  if (r.end > r.start) {
    p.completed = std::max(p.completed.value_or(0), r.sequence);
    group.end = std::max(group.end, r.end);
    if (!again_) longest_wait_ns_ = std::max(longest_wait_ns_, static_cast<int64_t>(r.end - r.start));
  }
  // Collectives before it that have not ended failed with an exception.
  std::erase_if(group.open, [&](const HostOperationRecord& o) {
    if (isPair(op)) return o.op == r.op && o.peer == r.peer && o.sequence <= r.sequence;
    return !isPair(ring_->string(o.op)) && o.sequence <= r.sequence;
  });
}

/// Another run of a job may meet at the same place: of one that is over nothing is told, and not for long of one that
/// has died.
bool RingFollower::tellsHost(uint64_t hash, uint64_t now, ProcessState state) const {
  if (!host_.contains(hash) || state == ProcessState::running || state == ProcessState::stopped) return true;
  return state == ProcessState::dead && (dead_ns == 0 || now - dead_ns < kDeadNs);
}

void RingFollower::addHost(uint64_t now, ProcessReport& report) const {
  uint32_t stream = kHostStreams;
  for (const auto& [hash, group] : host_) {
    const auto state = std::find_if(report.comms.begin(), report.comms.end(),
                                    [hash = hash](const CommState& c) { return c.comm == hash; });
    if (group.open.empty() || state == report.comms.end()) continue;
    uint32_t before = 0;
    for (const HostOperationRecord& r : group.open) {
      ++state->in_flight;
      if (report.in_flight.size() >= kMostInFlight) {
        ++report.left_out;
        continue;
      }
      InFlight& f = report.in_flight.emplace_back();
      f.op = model::opNameOf(ring_->string(r.op));
      f.comm = hash;
      f.seq = r.sequence;
      f.peer = isPair(f.op) ? r.peer : -1;
      // Ranks may each send as much as they like to each of the others.
      const bool uneven = model::opKind(f.op) == model::OpKind::all_to_all;
      f.bytes = uneven || r.bytes == ring::kUnknown ? 0 : static_cast<int64_t>(r.bytes);
      f.stream = stream;
      f.before = before++;
      f.age_ns = static_cast<int64_t>(now > r.start ? now - r.start : 0);
      const uint64_t since = std::max(r.start, group.end);
      f.wait_ns = f.before == 0 ? static_cast<int64_t>(now > since ? now - since : 0) : 0;
    }
    ++stream;
  }
}

}  // namespace tracesmith::cluster
