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

namespace {

/// A capture that is not larger is read from memory.
constexpr uint64_t kMostInMemory = 256u << 20;

/// Leads to an open file, with or without a name.
std::string pathOf(const File& file) { return "/proc/self/fd/" + std::to_string(file.fd()); }

}  // namespace

Status ClusterMaster::Impl::fetch(File& into, const std::vector<std::string>& nodes) const {
  if (!client || session.empty()) return Status::invalid("nothing was captured");
  return client->fetchTo([&](std::string_view bytes) { return into.write(bytes); }, session, nodes);
}

TraceRecord ClusterMaster::Impl::progress(const std::vector<std::string>& nodes) const {
  TraceRecord record;
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

TraceRecord ClusterMaster::Impl::collect(const std::vector<std::string>& nodes) const {
  const std::string path = config.data_dir + "/collected-" + access::randomHex(8) + ".sbt";
  if (!exportTo(path, nodes)) return {};
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!note(reader.status())) return {};
  TraceRecord record = progress(nodes);
  record.path = path;
  record.event_count = (*reader)->rows(trace::tableOf<trace::EventRow>());
  return record;
}

Result<File> ClusterMaster::Impl::scratch() const {
  uint64_t bytes = 0;
  for (const SessionInfo& s : status().sessions)
    if (s.id == session) bytes = s.bytes;
  const std::string path = config.data_dir + "/reading-" + access::randomHex(8);
  Result<File> file = bytes <= kMostInMemory ? File::inMemory() : File::create(path);
  if (!file) return file;
  if (bytes > kMostInMemory) std::remove(path.c_str());
  TS_TRY(fetch(*file));
  return file;
}

Result<std::unique_ptr<trace::Reader>> ClusterMaster::Impl::open() const {
  Result<File> file = scratch();
  if (!file) return file.status();
  return trace::Reader::open(pathOf(*file));
}

void ClusterMaster::Impl::count(const std::vector<SessionInfo>& sessions) const {
  const auto ended = std::ranges::find_if(sessions, [&](const SessionInfo& s) { return s.id == session && s.end_ns; });
  if (ended == sessions.end() || counted == session) return;
  const bool complete = progress({}).complete;  // asked first: what comes later may not be in the trace
  Result<std::unique_ptr<trace::Reader>> reader = open();
  Result<std::map<std::string, NodeAggregator::Statistics>> found = reader ? countCapture(**reader) : reader.status();
  if (!note(found.status())) return;
  counts = std::move(*found);
  for (auto& [node, s] : counts) {
    s.start_time = static_cast<Timestamp>(ended->start_ns);
    s.end_time = static_cast<Timestamp>(ended->end_ns);
    s.capture_duration_sec = static_cast<double>(ended->end_ns - ended->start_ns) / 1e9;
  }
  if (complete) counted = session;  // else there is more to come
}

TraceRecord ClusterMaster::collectAllTraces() { return collectTracesFromNodes({}); }

TraceRecord ClusterMaster::collectTracesFromNodes(const std::vector<std::string>& node_ids) {
  std::lock_guard lock(impl_->mutex);
  return impl_->collect(node_ids);
}

ClusterTimeline ClusterMaster::buildClusterTimeline() {
  std::lock_guard lock(impl_->mutex);
  ClusterTimeline timeline;
  Result<File> file = impl_->scratch();
  if (!impl_->note(file.status())) return timeline;
  if (!timeline.open(pathOf(*file)) || !timeline.load(impl_->config.max_events_per_node))
    (void)impl_->note(timeline.lastStatus());
  return timeline;
}

CommAnalysis::CommMatrix ClusterMaster::getClusterCommMatrix() const {
  CommAnalysis::CommMatrix cells;
  std::lock_guard lock(impl_->mutex);
  Result<std::unique_ptr<trace::Reader>> reader = impl_->open();
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

Status convert(const trace::Reader& reader, const std::string& filename, Status (*format)(trace::Export&)) {
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(reader);
  if (!clock) return clock.status();
  trace::Selection all;
  all.clock = clock->get();
  Result<OutputFile> out = OutputFile::create(filename);
  if (!out) return out.status();
  BufferedWriter writer(out->file());
  Progress progress("exporting");
  trace::Export e{reader, all, writer, progress};
  TS_TRY(format(e));
  TS_TRY(writer.flush());
  return out->commit();
}

}  // namespace

bool ClusterMaster::Impl::exportTo(const std::string& filename, const std::vector<std::string>& nodes) const {
  return note([&]() -> Status {
    if (!client || session.empty()) return Status::invalid("nothing was captured");
    Result<OutputFile> out = OutputFile::create(filename);
    if (!out) return out.status();
    TS_TRY(fetch(out->file(), nodes));
    return out->commit();
  }());
}

bool ClusterMaster::Impl::exportAs(Status (*format)(trace::Export&), const std::string& filename) {
  std::lock_guard lock(mutex);
  Result<std::unique_ptr<trace::Reader>> reader = open();
  return note(reader ? convert(**reader, filename, format) : reader.status());
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
