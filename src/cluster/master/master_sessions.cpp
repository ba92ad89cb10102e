// The master's sessions: what is to be recorded, and what was, as one trace.
#include <algorithm>

#include "cluster/master/master.hpp"
#include "cluster/master/retention.hpp"

namespace tracesmith::cluster {

std::vector<CaptureSpan> Master::captures() {
  std::vector<CaptureSpan> spans;
  for (const SessionRecord& s : sessions_.all()) {
    if (s.complete) continue;
    const int64_t start = s.pauses.empty() ? s.start_ns : s.pauses.back().to_ns;
    spans.push_back({s.id, start, s.end_ns, s.freq_ms, s.keep});
  }
  return spans;
}

void Master::sendCaptures() {
  const std::vector<CaptureSpan> spans = captures();
  std::lock_guard lock(mutex_);
  for (auto& [name, node] : nodes_)
    if (node.link) node.link->sendCaptures(spans);
}

Result<SessionInfo> Master::start(const StartOptions& options) {
  const int64_t now = referenceNow();
  if (options.last_s < 0 || options.duration_s < 0 || options.last_s > 1e6 || options.duration_s > 1e8)
    return Status::invalid("a session cannot be that long");
  StartOptions wanted = options;
  if (wanted.freq_ms == 0) wanted.freq_ms = options_.freq_ms;
  const int64_t start_ns = now - static_cast<int64_t>(options.last_s * 1e9);
  int64_t end_ns = 0;
  if (options.duration_s > 0) end_ns = now + static_cast<int64_t>(options.duration_s * 1e9);
  if (options.last_s > 0 && options.duration_s == 0) end_ns = now;
  std::vector<std::string> nodes;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, node] : nodes_)
      if (healthy(node)) nodes.push_back(name);
  }
  Result<SessionRecord> session = sessions_.start(wanted, start_ns, end_ns, nodes);
  if (!session) return session.status();
  sendCaptures();
  return describe(*session);
}

Result<std::vector<SessionInfo>> Master::stop(const std::string& name) {
  Result<std::vector<SessionRecord>> stopped = sessions_.stop(name, referenceNow());
  if (!stopped) return stopped.status();
  sendCaptures();
  std::vector<SessionInfo> list;
  for (const SessionRecord& s : *stopped) list.push_back(describe(s));
  return list;
}

Result<SessionInfo> Master::resume(const std::string& name_or_id) {
  Result<SessionRecord> session = sessions_.resume(name_or_id, referenceNow());
  if (!session) return session.status();
  sendCaptures();
  return describe(*session);
}

SessionInfo Master::describe(const SessionRecord& s) {
  SessionInfo info;
  static_cast<SessionCore&>(info) = s;
  const bool ended = s.end_ns != 0 && s.end_ns < referenceNow();
  bool all = true, coming = false;
  for (const std::string& name : s.nodes) {
    SessionNode node;
    node.node = name;
    node.covered_ns = store_->coveredUntil(name);
    node.complete = ended && (s.complete || node.covered_ns >= s.end_ns);
    {
      std::lock_guard lock(mutex_);
      auto it = nodes_.find(name);
      node.healthy = it != nodes_.end() && healthy(it->second);
    }
    all &= node.complete;
    coming |= !node.complete && node.healthy;
    for (const SegmentInfo& segment : store_->segments(name))
      if (touches(s, segment)) info.bytes += segment.size;
    info.nodes.push_back(std::move(node));
  }
  using enum model::SessionState;
  info.state = !ended ? recording : all ? complete : coming ? collecting : incomplete;
  return info;
}

std::vector<SessionInfo> Master::sessions() {
  std::vector<SessionInfo> list;
  for (const SessionRecord& s : sessions_.all()) list.push_back(describe(s));
  return list;
}

Result<DeletedSession> Master::deleteSession(const std::string& name_or_id) {
  Result<SessionRecord> gone = sessions_.remove(name_or_id, referenceNow());
  if (!gone) return gone.status();
  sendCaptures();
  Result<uint64_t> freed = removeDataOf(*gone);
  if (!freed) return freed.status();
  return DeletedSession{gone->id, *freed};
}

/// Removes what only a deleted session needed. A segment that may still grow goes later, and so does what a node has
/// not delivered: until then the session is not forgotten.
Result<uint64_t> Master::removeDataOf(const SessionRecord& gone) {
  uint64_t freed = 0;
  bool all = true;
  const std::vector<SessionRecord> sessions = sessions_.all();
  auto needed = [&](const SegmentInfo& segment) {
    return std::ranges::any_of(sessions, [&](const SessionRecord& s) { return touches(s, segment); });
  };
  for (const std::string& node : gone.nodes) {
    const std::vector<SegmentInfo> segments = store_->segments(node);
    const std::vector<size_t> free = neededByNone(segments, gone, sessions);
    const auto only = std::ranges::count_if(segments, [&](const auto& s) { return touches(gone, s) && !needed(s); });
    all = all && static_cast<size_t>(only) == free.size() && store_->coveredUntil(node) >= gone.end_ns;
    for (const size_t i : free) {
      TS_TRY(store_->remove(segments[i]));
      freed += segments[i].size;
    }
  }
  if (all) sessions_.forget(gone.id);
  return freed;
}

/// All that is stored, as a session; a summary where all sessions are.
SessionRecord Master::everything() const {
  SessionRecord all;
  const std::vector<SessionRecord> sessions = sessions_.all();
  if (!sessions.empty() && std::ranges::all_of(sessions, [](const auto& s) { return s.keep == model::Keep::summary; }))
    all.keep = model::Keep::summary;
  all.id = all.name = "everything";
  all.start_ns = 1;
  all.end_ns = referenceNow();
  all.nodes = store_->nodes();
  return all;
}

/// What was acknowledged once and is gone.
std::vector<SessionLoss> Master::lossesOf(const SessionRecord& s, const std::vector<SessionNode>& nodes) const {
  std::vector<SessionLoss> all;
  for (const SessionNode& node : nodes)
    for (const NodeLoss& l : store_->losses(node.node))
      if (l.covered_ns >= s.start_ns && (s.end_ns == 0 || l.from_ns < s.end_ns))
        all.push_back({node.node, "gone at the master", std::nullopt, text(node.node, l)});
  return all;
}

Status Master::fetch(const std::string& name_or_id, const TraceSink& sink, const std::vector<std::string>& nodes,
                     const LeaveOut& leave_out) {
  Result<SessionRecord> session = name_or_id.empty() ? everything() : sessions_.find(name_or_id);
  if (!session) return session.status();
  std::vector<SegmentInfo> segments;
  std::vector<SessionNode> taking_part = describe(*session).nodes;
  for (const std::string& wanted : nodes)
    if (std::ranges::none_of(taking_part, [&](const SessionNode& n) { return n.node == wanted; }))
      return Status::notFound("node " + wanted + " has no part in it");
  if (!nodes.empty())
    std::erase_if(taking_part, [&](const SessionNode& n) { return std::ranges::count(nodes, n.node) == 0; });
  for (const SessionNode& node : taking_part) {
    std::vector<SegmentInfo> more = store_->segments(node.node);
    segments.insert(segments.end(), more.begin(), more.end());
  }
  std::vector<SessionLoss> losses = lossesOf(*session, taking_part);
  if (!name_or_id.empty() && session->end_ns != 0)  // of a session that records nothing is missing yet
    for (const SessionNode& node : taking_part)
      if (!node.complete)
        losses.push_back({node.node, "not delivered", std::nullopt,
                          "the node had not sent all of its data when this trace was made"});
  return mergeSession(*session, segments, losses, sink, leave_out);
}

Result<File> Master::openSegment(const SegmentName& name, uint64_t& size) const {
  for (const SegmentInfo& segment : store_->segments(name.node)) {
    if (segment.number != name.number || segment.epoch != name.epoch) continue;
    size = segment.size;
    return File::openRead(segment.path);
  }
  return Status::notFound("the master has removed data of node " + name.node.substr(0, 64) +
                          " that the query needs: run it again");
}

Status Master::fetchMore(const std::string& id, GrowingSession& growing, const TraceSink& sink) {
  Result<SessionRecord> session = sessions_.find(id);
  if (!session) return session.status();
  std::vector<SegmentInfo> segments;
  for (const SessionNode& node : describe(*session).nodes) {
    std::vector<SegmentInfo> more = store_->segments(node.node);
    segments.insert(segments.end(), more.begin(), more.end());
  }
  return growing.more(*session, segments, lossesOf(*session, describe(*session).nodes), sink);
}

}  // namespace tracesmith::cluster
