#include <cstring>
#include <set>

#include "base/clock.hpp"
#include "cluster/agent/live_rings.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;

namespace {

constexpr uint64_t kS = 1'000'000'000;
constexpr uint64_t kForgetDeadNs = 600 * kS;  // how long a process that is gone is told
constexpr uint64_t kFreshDeadNs = 60 * kS;    // one found dead is told if its probe was alive so recently

// Of all processes of one user, about 50 bytes each. A rank has some hundred.
constexpr size_t kMostDetails = 32768;

size_t detailsOf(const ProcessReport& p) {
  size_t n = p.comms.size() + p.in_flight.size();
  for (const CommState& c : p.comms) n += c.ops.size() + c.transfers.size() + c.name.size() / 64;
  return n;
}

}  // namespace

void RingWatch::look(uint64_t now) {
  const std::vector<std::string> paths = folders_.rings();
  for (const std::string& path : paths) {
    auto [it, fresh] = rings_.try_emplace(path);
    if (!fresh) continue;
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader) {
      rings_.erase(it);  // not ready yet: tried again
      continue;
    }
    const ring::RingHeader& h = (*reader)->header();
    const bool elsewhere = h.simulated && node_ != std::string_view(h.host, ::strnlen(h.host, sizeof h.host));
    const bool old = !(*reader)->alive() && h.heartbeat_ns.load() + kFreshDeadNs < now;
    if (!elsewhere && !old) it->second = std::make_unique<RingFollower>(std::move(*reader));
  }
  const std::set<std::string> there(paths.begin(), paths.end());
  std::erase_if(rings_, [&](const auto& ring) {
    const bool gone = !there.contains(ring.first);
    if (!ring.second) return gone;
    RingFollower& f = *ring.second;
    if (f.ring().alive()) return false;
    if (f.dead_ns == 0) f.dead_ns = now;
    return gone && now - f.dead_ns > kForgetDeadNs;
  });
}

std::vector<ProcessReport> RingWatch::report() {
  const uint64_t now = rawClock();
  look(now);
  std::vector<ProcessReport> all;
  std::map<uint32_t, size_t> told;  // by user
  for (auto& [path, follower] : rings_) {
    if (!follower || (follower->dead_ns != 0 && now - follower->dead_ns >= kForgetDeadNs)) continue;
    ProcessReport& p = all.emplace_back(follower->report(now));
    size_t& details = told[follower->ring().owner()];
    details += detailsOf(p);
    if (details <= kMostDetails) continue;
    p.left_out += p.comms.size() + p.in_flight.size();
    p.comms.clear();
    p.in_flight.clear();
  }
  return all;
}

}  // namespace tracesmith::cluster
