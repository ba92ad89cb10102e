#include <algorithm>
#include <cstdio>

#include "access/names.hpp"
#include "base/file.hpp"
#include "base/progress.hpp"
#include "cluster/sdk/cluster_master_impl.hpp"
#include "cluster/sdk/trace_contents.hpp"
#include "trace/clocks.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

TraceRecord ClusterMaster::Impl::collect(const std::vector<std::string>& nodes) const {
  TraceRecord record;
  const std::string path = config.data_dir + "/collected-" + access::randomHex(8) + ".sbt";
  if (!exportTo(path, nodes)) return record;
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!note(reader.status())) return record;
  record.path = path;
  record.event_count = (*reader)->rows(trace::tableOf<trace::EventRow>());
  record.complete = true;
  for (const SessionInfo& s : status().sessions) {
    if (s.id != session) continue;
    for (const SessionNode& node : s.nodes) {
      if (!nodes.empty() && std::ranges::count(nodes, node.node) == 0) continue;
      record.complete &= node.complete;
      record.nodes.push_back(node.node);
    }
  }
  return record;
}

Result<std::unique_ptr<trace::Reader>> ClusterMaster::Impl::open(TraceRecord& record) const {
  record = collect({});
  if (record.path.empty()) return last;
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(record.path);
  std::remove(record.path.c_str());
  return reader;
}

void ClusterMaster::Impl::count(const std::vector<SessionInfo>& sessions) const {
  const auto ended = std::ranges::find_if(sessions, [&](const SessionInfo& s) { return s.id == session && s.end_ns; });
  if (ended == sessions.end() || counted == session) return;
  TraceRecord record;
  Result<std::unique_ptr<trace::Reader>> reader = open(record);
  Result<std::map<std::string, NodeAggregator::Statistics>> found = reader ? countCapture(**reader) : reader.status();
  if (!note(found.status())) return;
  counts = std::move(*found);
  for (auto& [node, s] : counts) {
    s.start_time = static_cast<Timestamp>(ended->start_ns);
    s.end_time = static_cast<Timestamp>(ended->end_ns);
    s.capture_duration_sec = static_cast<double>(ended->end_ns - ended->start_ns) / 1e9;
  }
  if (record.complete) counted = session;  // else there is more to come
}

TraceRecord ClusterMaster::collectAllTraces() { return collectTracesFromNodes({}); }

TraceRecord ClusterMaster::collectTracesFromNodes(const std::vector<std::string>& node_ids) {
  std::lock_guard lock(impl_->mutex);
  return impl_->collect(node_ids);
}

ClusterTimeline ClusterMaster::buildClusterTimeline() {
  std::lock_guard lock(impl_->mutex);
  ClusterTimeline timeline;
  const TraceRecord record = impl_->collect({});
  if (record.path.empty()) return timeline;
  const bool opened = timeline.open(record.path);
  std::remove(record.path.c_str());
  if (!opened || !timeline.load(impl_->config.max_events_per_node)) (void)impl_->note(timeline.lastStatus());
  return timeline;
}

CommAnalysis::CommMatrix ClusterMaster::getClusterCommMatrix() const {
  CommAnalysis::CommMatrix cells;
  std::lock_guard lock(impl_->mutex);
  TraceRecord record;
  Result<std::unique_ptr<trace::Reader>> reader = impl_->open(record);
  Result<analysis::Analysis> result = reader ? analysis::analyze(**reader, {}) : reader.status();
  if (!impl_->note(result.status())) return cells;
  for (const analysis::MatrixCell& c : result->matrix)
    cells.world_size = std::max({cells.world_size, static_cast<uint32_t>(c.from) + 1, static_cast<uint32_t>(c.to) + 1});
  const size_t n = cells.world_size;
  cells.bytes.assign(n, std::vector<uint64_t>(n));
  cells.count = cells.bytes;
  cells.avg_latency.assign(n, std::vector<double>(n));
  for (const analysis::MatrixCell& c : result->matrix) {
    const auto from = static_cast<size_t>(c.from), to = static_cast<size_t>(c.to);
    cells.bytes[from][to] = c.bytes;
    cells.count[from][to] = c.count;
    cells.avg_latency[from][to] = c.latency_us;
  }
  return cells;
}

namespace {

Status convert(const std::string& sbt, const std::string& filename, Status (*format)(trace::Export&)) {
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(sbt);
  if (!reader) return reader.status();
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(**reader);
  if (!clock) return clock.status();
  trace::Selection all;
  all.clock = clock->get();
  Result<OutputFile> out = OutputFile::create(filename);
  if (!out) return out.status();
  BufferedWriter writer(out->file());
  Progress progress("exporting");
  trace::Export e{**reader, all, writer, progress};
  TS_TRY(format(e));
  TS_TRY(writer.flush());
  return out->commit();
}

}  // namespace

bool ClusterMaster::Impl::exportTo(const std::string& filename, const std::vector<std::string>& nodes) const {
  if (!client || session.empty()) return note(Status::invalid("nothing was captured"));
  return note(client->fetch(session, filename, {}, nodes));
}

bool ClusterMaster::Impl::exportAs(Status (*format)(trace::Export&), const std::string& filename) {
  std::lock_guard lock(mutex);
  const std::string sbt = filename + ".sbt.part";
  if (!exportTo(sbt)) return false;
  const Status status = convert(sbt, filename, format);
  std::remove(sbt.c_str());
  return note(status);
}

bool ClusterMaster::exportToSBT(const std::string& filename) {
  std::lock_guard lock(impl_->mutex);
  return impl_->exportTo(filename);
}
bool ClusterMaster::exportToPerfetto(const std::string& filename) {
  return impl_->exportAs(trace::exportPerfetto, filename);
}
bool ClusterMaster::exportToJSON(const std::string& filename) { return impl_->exportAs(trace::exportChrome, filename); }

}  // namespace tracesmith::cluster
