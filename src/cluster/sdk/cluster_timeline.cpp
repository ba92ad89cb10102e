#include <algorithm>
#include <map>

#include "cluster/sdk/trace_contents.hpp"
#include "cluster/wire/trace_events.hpp"
#include "trace/clocks.hpp"
#include "trace/time_order.hpp"
#include "tracesmith/cluster/cluster_types.hpp"

namespace tracesmith::cluster {

using namespace trace;

struct ClusterTimeline::Impl {
  struct Rows {
    Rows(const Reader& reader, const TableInfo& of, const Selection& all)
        : table(&of), order(reader, of, all, traceEventColumns(of), reader.blocks(of)), more(order.next()) {}
    const TableInfo* table;
    TimeOrder order;
    bool more;
  };
  std::unique_ptr<Reader> reader;
  std::unique_ptr<trace::TraceClock> clock;  // of several nodes
  trace::ClockTable only;                    // of one
  std::vector<std::unique_ptr<Rows>> tables;
  /// Rows from the first on.
  std::vector<std::unique_ptr<Rows>> open() const {
    Selection all;
    all.clock = clock.get();
    std::vector<std::unique_ptr<Rows>> opened;
    for (const TableInfo* table : {&tableOf<EventRow>(), &tableOf<CollectiveRow>()})
      opened.push_back(std::make_unique<Rows>(*reader, *table, all));
    return opened;
  }
  Status last;
};

ClusterTimeline::ClusterTimeline() : impl_(std::make_unique<Impl>()) {}
ClusterTimeline::~ClusterTimeline() = default;
ClusterTimeline::ClusterTimeline(ClusterTimeline&&) noexcept = default;
ClusterTimeline& ClusterTimeline::operator=(ClusterTimeline&&) noexcept = default;

Status ClusterTimeline::lastStatus() const { return impl_->last; }

bool ClusterTimeline::open(const std::string& trace) {
  const Status status = [&]() -> Status {
    Result<std::unique_ptr<Reader>> reader = Reader::open(trace);
    if (!reader) return reader.status();
    Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(**reader);
    if (!clock) return clock.status();
    Result<trace::Clocks> clocks = trace::readClocks(**reader);
    if (!clocks) return clocks.status();
    impl_->tables.clear();
    impl_->reader = std::move(*reader);
    impl_->clock = std::move(*clock);
    if (!impl_->clock && !clocks->empty()) impl_->only = clocks->begin()->second;
    return {};
  }();
  impl_->last = status;
  if (!status) return false;
  int64_t first = INT64_MAX, last = INT64_MIN;
  event_count = 0;
  Selection all;
  all.clock = impl_->clock.get();
  for (const TableInfo* table : {&tableOf<EventRow>(), &tableOf<CollectiveRow>()}) {
    int64_t low, high;
    tableTimes(*impl_->reader, *table, all.clock, low, high);
    if (low != 0 || high != 0) first = std::min(first, low), last = std::max(last, high);
    event_count += impl_->reader->rows(*table);
  }
  impl_->tables = impl_->open();
  start_time = first <= last ? static_cast<Timestamp>(impl_->only.toReference(first)) : 0;
  end_time = first <= last ? static_cast<Timestamp>(impl_->only.toReference(last)) : 0;
  return true;
}

bool ClusterTimeline::load(uint64_t max_events_per_node) {
  const Status status = [&]() -> Status {
    if (!impl_->reader) return Status::invalid("no trace is open");
    Result<std::vector<NCCLOperation>> operations = ncclOperations(*impl_->reader, impl_->clock.get());
    if (!operations) return operations.status();
    Result<GPUTopologyInfo> topology = recordedTopology(*impl_->reader);
    if (!topology) return topology.status();
    nccl_ops = std::move(*operations);
    cluster_topology = std::move(*topology);
    auto toUnix = [&](Timestamp& t) {
      if (t != 0) t = static_cast<Timestamp>(impl_->only.toReference(static_cast<int64_t>(t)));
    };
    for (NCCLOperation& o : nccl_ops) toUnix(o.start_time), toUnix(o.end_time), toUnix(o.enqueue_time);
    // With a reading position of its own: next() goes on where it was.
    impl_->last = {};
    events.clear();
    events_left_out = 0;
    std::vector<std::unique_ptr<Impl::Rows>> reading = impl_->open();
    reading.swap(impl_->tables);
    std::map<std::string, uint64_t> taken;
    std::string node;
    for (tracesmith::TraceEvent event; next(node, event);) {
      if (++taken[node] > max_events_per_node) {
        ++events_left_out;
        continue;
      }
      event.metadata["node"] = node;
      events.push_back(std::move(event));
      event = {};
    }
    reading.swap(impl_->tables);
    return impl_->last;
  }();
  impl_->last = status;
  return status.ok();
}

bool ClusterTimeline::next(std::string& node_id, tracesmith::TraceEvent& event) {
  Impl::Rows* earliest = nullptr;
  for (const auto& rows : impl_->tables) {
    if (!rows->order.status()) {
      impl_->last = rows->order.status();
      return false;
    }
    if (rows->more && (!earliest || rows->order.ts() < earliest->order.ts())) earliest = rows.get();
  }
  if (!earliest) return false;
  node_id = nodeOf(*earliest->table, earliest->order.row());
  event = toTraceEvent(*earliest->table, earliest->order.row());
  event.timestamp = static_cast<Timestamp>(impl_->only.toReference(earliest->order.ts()));
  earliest->more = earliest->order.next();
  return true;
}

}  // namespace tracesmith::cluster
