// A trace as Perfetto shows it, rank by rank. Times are those of the trace, in ns.
#include <algorithm>
#include <deque>

#include "trace/export/export.hpp"
#include "trace/export/id_set.hpp"
#include "trace/export/names.hpp"
#include "trace/export/perfetto_tracks.hpp"
#include "trace/export/ranks.hpp"
#include "trace/layout.hpp"

namespace tracesmith::trace {
namespace {

/// Ids of arrows are global in a Perfetto trace: made from all that makes one unique in ours.
uint64_t flowId(std::string_view scope, std::string_view node, int64_t rank, int64_t pid, int64_t id) {
  const uint64_t parts[] = {hash64(scope.data(), scope.size()), hash64(node.data(), node.size()), static_cast<uint64_t>(rank),
                            static_cast<uint64_t>(pid), static_cast<uint64_t>(id)};
  return hash64(parts, sizeof parts);
}

/// Which launches and device rows of a rank have a counterpart.
struct Correlations {
  IdSet launched, ran, ran_again;

  bool joined(int64_t id) const { return id != kNull && launched.contains(id) && ran.contains(id); }
};

/// Rows of `flows` next to the slices they begin at: both come in order of time.
class FlowEnds {
 public:
  explicit FlowEnds(TimeOrder rows) : rows_(std::move(rows)) { more_ = rows_.next(); }

  struct End {
    int64_t pid, tid, id;
    std::string_view kind, phase;
  };
  /// Takes the ends at `ts` on a thread (or device and stream).
  template <typename Visit>
  void take(int64_t ts, int64_t pid, int64_t tid, Visit visit) {
    if (ts != ts_) at_.clear();
    ts_ = ts;
    for (; more_ && rows_.ts() <= ts; more_ = rows_.next()) {
      const Row& r = rows_.row();
      std::string_view kind = r.text(flows::kind);
      if (rows_.ts() < ts || kind == "ac2g") continue;  // launches are joined by their correlation
      at_.push_back({r.slot(flows::pid), r.slot(flows::tid), r.slot(flows::id), kind, r.text(flows::phase)});
    }
    std::erase_if(at_, [&](const End& e) {
      if (e.pid != pid || e.tid != tid) return false;
      visit(e);
      return true;
    });
  }
  const Status& status() const { return rows_.status(); }

 private:
  TimeOrder rows_;
  bool more_;
  int64_t ts_ = kNull;
  std::vector<End> at_;
};

class Perfetto {
 public:
  explicit Perfetto(Export& e) : export_(e), packets_(e.out), tracks_(packets_, names_) {}

  Status run() {
    TS_TRY(names_.load(export_.reader));
    Result<std::vector<int64_t>> ranks =
        ranksOf(export_.reader, {&tableOf<EventRow>(), &tableOf<CollectiveRow>(), &tableOf<ProxyOpRow>(), &tableOf<StepRow>(), &tableOf<CounterRow>()},
                export_.selection);
    if (!ranks) return ranks.status();
    for (int64_t rank : *ranks) {
      packets_.beginSequence();
      TS_TRY(correlate(rank));
      TS_TRY(steps(rank));
      TS_TRY(collectives(rank));
      TS_TRY(proxyOps(rank));
      TS_TRY(counters(rank));
      TS_TRY(events(rank));
      tracks_.finishRank();
    }
    packets_.beginSequence();
    TS_TRY(metrics());
    TS_TRY(losses());
    tracks_.finishRank();
    return packets_.status();
  }

 private:
  TimeOrder rows(const TableInfo& table, int64_t rank, std::vector<int> columns) {
    return rowsOfRank(export_.reader, table, export_.selection, rank, std::move(columns));
  }

  /// Pid of a row, or of its rank's process.
  int64_t pidOf(const Row& row, int column, std::string_view node, int64_t rank) const {
    int64_t pid = row.slot(column);
    return pid != kNull ? pid : names_.pidOf(node, rank);
  }

  /// Counts a row; false if Perfetto cannot hold its time.
  bool count(int64_t ts) {
    if (ts < 0) {
      ++export_.left_out;
      return false;
    }
    if ((++export_.rows & 0xffff) == 0) export_.progress.update(export_.rows, total_);
    return true;
  }

  void annotate(const Row& row, int column, std::string_view key) {
    if (int64_t v = row.slot(column); v != kNull) packets_.annotate(key, v);
  }
  void annotateText(const Row& row, int column, std::string_view key) {
    if (std::string_view v = row.text(column); !v.empty()) packets_.annotate(key, v);
  }

  Status correlate(int64_t rank);
  Status events(int64_t rank);
  void describe(const Row& row);
  Status steps(int64_t rank);
  Status collectives(int64_t rank);
  Status proxyOps(int64_t rank);
  Status counters(int64_t rank);
  Status metrics();
  Status losses();

  Export& export_;
  Names names_;
  PerfettoPackets packets_;
  PerfettoTracks tracks_;
  Correlations correlations_;
  uint64_t total_ = export_.reader.rows(tableOf<EventRow>());
};

Status Perfetto::correlate(int64_t rank) {
  correlations_ = {};
  TimeOrder order = rows(tableOf<EventRow>(), rank, {events::ts, events::dur, events::type, events::rank, events::correlation});
  while (order.next()) {
    int64_t id = order.row().slot(events::correlation);
    if (id == kNull) continue;
    if (!isDeviceType(static_cast<EventType>(order.row().slot(events::type))))
      correlations_.launched.insert(id);
    else if (!correlations_.ran.insert(id))
      correlations_.ran_again.insert(id);
  }
  return order.status();
}

Status Perfetto::events(int64_t rank) {
  TimeOrder order = rows(tableOf<EventRow>(), rank,
                         {events::ts, events::dur, events::type, events::name, events::node, events::rank, events::pid, events::tid,
                          events::device, events::stream, events::correlation, events::step, events::bytes, events::launch,
                          events::context, events::graph, events::graph_node, events::external_id, events::args});
  FlowEnds flows(rows(tableOf<FlowRow>(), rank, {flows::ts, flows::rank, flows::pid, flows::tid, flows::id, flows::kind, flows::phase}));
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(events::node);
    auto type = static_cast<EventType>(row.slot(events::type));
    const int64_t pid = pidOf(row, events::pid, node, rank), tid = row.slot(events::tid);
    const int64_t device = row.slot(events::device), stream = row.slot(events::stream);
    const bool on_device = isDeviceType(type);
    SliceTrack& track = on_device ? tracks_.stream(node, rank, pid, device, stream, type == EventType::gpu_annotation)
                                  : tracks_.thread(node, rank, pid, tid);
    if (row.slot(events::dur) == kNull)
      tracks_.instant(track, order.ts());
    else
      tracks_.begin(track, order.ts(), order.dur());
    packets_.category(eventTypeName(type));
    packets_.name(row.text(events::name));
    if (int64_t id = row.slot(events::correlation); correlations_.joined(id))
      packets_.flow(flowId("launch", node, rank, pid, id), on_device && !correlations_.ran_again.contains(id));
    flows.take(order.ts(), on_device ? device : pid, on_device ? stream : tid, [&](const FlowEnds::End& e) {
      packets_.flow(flowId(e.kind, node, rank, 0, e.id), e.phase == "end");
    });
    describe(row);
    packets_.finish();
    TS_TRY(packets_.status());
  }
  TS_TRY(flows.status());
  return order.status();
}

void Perfetto::describe(const Row& row) {
  annotate(row, events::step, "step");
  annotate(row, events::bytes, "bytes");
  if (std::string_view shape = row.text(events::launch); !shape.empty()) {
    LaunchShape s = LaunchShape::parse(shape);
    auto size = [](int32_t x, int32_t y, int32_t z) { return std::to_string(x) + " x " + std::to_string(y) + " x " + std::to_string(z); };
    if (s.grid_x >= 0) packets_.annotate("grid", std::string_view(size(s.grid_x, s.grid_y, s.grid_z)));
    if (s.block_x >= 0) packets_.annotate("block", std::string_view(size(s.block_x, s.block_y, s.block_z)));
    if (s.registers >= 0) packets_.annotate("registers", int64_t{s.registers});
    if (s.shared_static >= 0) packets_.annotate("shared static", int64_t{s.shared_static});
    if (s.shared_dynamic >= 0) packets_.annotate("shared dynamic", int64_t{s.shared_dynamic});
  }
  annotate(row, events::correlation, "correlation");
  annotate(row, events::external_id, "external id");
  annotate(row, events::context, "context");
  annotate(row, events::graph, "graph");
  annotate(row, events::graph_node, "graph node");
  annotateText(row, events::args, "args");
}

Status Perfetto::steps(int64_t rank) {
  TimeOrder order = rows(tableOf<StepRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(steps::node), name = row.text(steps::name);
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, steps::pid, node, rank), "steps", 1), order.ts(), order.dur());
    packets_.category("step");
    packets_.name(name.empty() ? "step " + std::to_string(row.slot(steps::step)) : std::string(name));
    annotate(row, steps::step, "step");
    packets_.finish();
  }
  return order.status();
}

Status Perfetto::collectives(int64_t rank) {
  TimeOrder order = rows(tableOf<CollectiveRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(collectives::node);
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, collectives::pid, node, rank), "collectives", 2), order.ts(), order.dur());
    packets_.category("collective");
    packets_.name(row.text(collectives::op));
    annotateText(row, collectives::comm, "comm");
    annotate(row, collectives::seq, "seq");
    annotate(row, collectives::bytes, "bytes");
    annotate(row, collectives::elements, "elements");
    annotateText(row, collectives::dtype, "dtype");
    annotateText(row, collectives::algo, "algo");
    annotateText(row, collectives::proto, "proto");
    annotate(row, collectives::channels, "channels");
    annotate(row, collectives::group_rank, "group rank");
    annotate(row, collectives::group_size, "group size");
    annotate(row, collectives::peer, "peer");
    annotate(row, collectives::step, "step");
    annotate(row, collectives::correlation, "correlation");
    annotateText(row, collectives::name, "kernel");
    annotateText(row, collectives::args, "args");
    packets_.finish();
  }
  return order.status();
}

Status Perfetto::proxyOps(int64_t rank) {
  TimeOrder order = rows(tableOf<ProxyOpRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(proxy_ops::node);
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, proxy_ops::pid, node, rank), "network", 3), order.ts(), order.dur());
    packets_.category("proxy_op");
    packets_.name(row.text(proxy_ops::direction));
    annotateText(row, proxy_ops::comm, "comm");
    annotate(row, proxy_ops::seq, "seq");
    annotate(row, proxy_ops::channel, "channel");
    annotate(row, proxy_ops::peer, "peer");
    annotate(row, proxy_ops::bytes, "bytes");
    annotate(row, proxy_ops::steps, "steps");
    annotate(row, proxy_ops::gpu_wait, "gpu wait ns");
    annotate(row, proxy_ops::peer_wait, "peer wait ns");
    annotate(row, proxy_ops::net_wait, "net wait ns");
    packets_.finish();
  }
  return order.status();
}

Status Perfetto::counters(int64_t rank) {
  TimeOrder order = rows(tableOf<CounterRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (row.slot(counters::value) == kNull || !count(order.ts())) continue;
    std::string_view node = row.text(counters::node), series = row.text(counters::series);
    std::string name(row.text(counters::name));
    if (!series.empty()) name += " · " + std::string(series);
    packets_.counter(order.ts(), tracks_.counterOfProcess(node, rank, pidOf(row, counters::pid, node, rank), name),
                     row.real(counters::value));
  }
  return order.status();
}

Status Perfetto::metrics() {
  const TableInfo& table = tableOf<MetricRow>();
  return forEachRow(export_.reader, table, export_.selection, {}, [&](const Row& row) {
    int64_t ts = row.slot(metrics::ts);
    if (row.slot(metrics::value) == kNull || ts == kNull || !count(ts)) return packets_.status();
    std::string name(row.text(metrics::name));
    if (std::string_view part = row.text(metrics::part); !part.empty()) name += " · " + std::string(part);
    packets_.counter(ts, tracks_.counterOfNode(row.text(metrics::node), row.slot(metrics::device), name, row.text(metrics::unit)),
                     row.real(metrics::value));
    return packets_.status();
  });
}

/// What is missing, where it can be seen: rows of `losses`, and blocks that could not be read.
Status Perfetto::losses() {
  constexpr const char* kTrack = "TraceSmith losses";
  int64_t start = INT64_MAX, low, high;
  for (const Block* b : export_.reader.blocks(tableOf<EventRow>()))
    if (b->zone(events::ts, low, high)) start = std::min(start, low);
  start = start == INT64_MAX ? 0 : std::max<int64_t>(start, 0);
  TS_TRY(forEachRow(export_.reader, tableOf<LossRow>(), {}, {}, [&](const Row& row) {
    int64_t ts = row.slot(losses::ts);
    tracks_.instant(tracks_.top(kTrack, -1), ts == kNull || ts < 0 ? start : ts);
    packets_.category("loss");
    packets_.name(row.text(losses::cause));
    annotate(row, losses::count, "count");
    annotateText(row, losses::detail, "detail");
    annotateText(row, losses::node, "node");
    annotate(row, losses::rank, "rank");
    annotate(row, losses::pid, "pid");
    packets_.finish();
    return packets_.status();
  }));
  for (const Damage& d : export_.reader.damage()) {
    tracks_.instant(tracks_.top(kTrack, -1), start);
    packets_.category("loss");
    packets_.name("damaged block");
    packets_.annotate("offset", static_cast<int64_t>(d.offset));
    packets_.annotate("bytes", static_cast<int64_t>(d.bytes));
    packets_.annotate("detail", std::string_view(d.what));
    packets_.finish();
  }
  return packets_.status();
}

}  // namespace

Status exportPerfetto(Export& e) { return Perfetto(e).run(); }

}  // namespace tracesmith::trace
