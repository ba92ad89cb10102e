#include "trace/export/perfetto.hpp"

#include "trace/layout.hpp"

namespace tracesmith::trace {
namespace {

/// Ids of arrows are global in a Perfetto trace: made from all that makes one unique in ours.
uint64_t flowId(std::string_view scope, std::string_view node, int64_t rank, int64_t pid, int64_t id) {
  const uint64_t parts[] = {hash64(scope.data(), scope.size()), hash64(node.data(), node.size()),
                            static_cast<uint64_t>(rank), static_cast<uint64_t>(pid), static_cast<uint64_t>(id)};
  return hash64(parts, sizeof parts);
}

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
      if (rows_.ts() < ts || isLaunchFlow(kind)) continue;  // launches are joined by their correlation
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

}  // namespace

Status Perfetto::run() {
  TS_TRY(names_.load(export_.reader));
  Result<std::vector<int64_t>> ranks = ranksOf(export_.reader,
                                               {&tableOf<EventRow>(), &tableOf<CollectiveRow>(), &tableOf<ProxyOpRow>(),
                                                &tableOf<StepRow>(), &tableOf<CounterRow>()},
                                               export_.selection);
  if (!ranks) return ranks.status();
  for (const std::vector<int64_t>& batch : rankBatches(*ranks)) {
    packets_.beginSequence();
    TS_TRY(steps(batch));
    TS_TRY(collectives(batch));
    TS_TRY(proxyOps(batch));
    TS_TRY(counters(batch));
    tracks_.finishSlices();
  }
  for (int64_t rank : *ranks) {
    packets_.beginSequence();
    TS_TRY(correlate(rank));
    TS_TRY(events(rank));
    tracks_.finishSlices();
  }
  packets_.beginSequence();
  TS_TRY(metrics());
  TS_TRY(losses());
  tracks_.finishSlices();
  return packets_.status();
}

Status Perfetto::correlate(int64_t rank) {
  correlations_ = {};
  TimeOrder order =
      rows(tableOf<EventRow>(), {rank}, {events::ts, events::dur, events::type, events::rank, events::correlation});
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
  TimeOrder order =
      rows(tableOf<EventRow>(), {rank},
           {events::ts, events::dur, events::type, events::name, events::node, events::rank, events::pid, events::tid,
            events::device, events::stream, events::correlation, events::step, events::bytes, events::launch,
            events::context, events::graph, events::graph_node, events::external_id, events::args});
  FlowEnds flows(rows(tableOf<FlowRow>(), {rank},
                      {flows::ts, flows::rank, flows::pid, flows::tid, flows::id, flows::kind, flows::phase}));
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(events::node);
    auto type = static_cast<EventType>(row.slot(events::type));
    const int64_t pid = pidOf(row, events::pid, node, rank), tid = row.slot(events::tid);
    const int64_t device = row.slot(events::device), stream = row.slot(events::stream);
    const bool on_device = isOnDevice(row);
    SliceTrack& track = on_device ? tracks_.stream(node, rank, pid, device, stream, type == EventType::gpu_annotation)
                                  : tracks_.thread(node, rank, pid, tid);
    if (row.slot(events::dur) == kNull)
      tracks_.instant(track, order.ts());
    else
      tracks_.begin(track, order.ts(), order.dur());
    packets_.category(eventTypeName(type));
    packets_.name(row.text(events::name));
    if (int64_t id = row.slot(events::correlation); correlations_.joined(id))
      packets_.flow(flowId("launch", node, rank, pid, id), isDeviceType(type) && !correlations_.ran_again.contains(id));
    flows.take(order.ts(), on_device ? device : pid, on_device ? stream : tid,
               [&](const FlowEnds::End& e) { packets_.flow(flowId(e.kind, node, rank, 0, e.id), e.phase == "end"); });
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
    const LaunchShape s = LaunchShape::parse(shape);
    using Number = std::optional<int32_t>;
    auto size = [&](const char* key, Number x, Number y, Number z) {
      if (!x || !y || !z) return;
      const std::string text = std::to_string(*x) + " x " + std::to_string(*y) + " x " + std::to_string(*z);
      packets_.annotate(key, std::string_view(text));
    };
    auto number = [&](const char* key, Number v) {
      if (v) packets_.annotate(key, int64_t{*v});
    };
    size("grid", s.grid_x, s.grid_y, s.grid_z);
    size("block", s.block_x, s.block_y, s.block_z);
    number("registers", s.registers);
    number("shared static", s.shared_static);
    number("shared dynamic", s.shared_dynamic);
  }
  annotate(row, events::correlation, "correlation");
  annotate(row, events::external_id, "external id");
  annotate(row, events::context, "context");
  annotate(row, events::graph, "graph");
  annotate(row, events::graph_node, "graph node");
  annotateText(row, events::args, "args");
}

Status exportPerfetto(Export& e) { return Perfetto(e).run(); }

}  // namespace tracesmith::trace
