#include <algorithm>

#include "cluster/wire/trace_events.hpp"
#include "sync/clock_table.hpp"
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
  std::unique_ptr<sync::TraceClock> clock;  // of several nodes
  sync::ClockTable only;                    // of one
  std::vector<std::unique_ptr<Rows>> tables;
  std::string error;
};

ClusterTimeline::ClusterTimeline() : impl_(std::make_unique<Impl>()) {}
ClusterTimeline::~ClusterTimeline() = default;
ClusterTimeline::ClusterTimeline(ClusterTimeline&&) noexcept = default;
ClusterTimeline& ClusterTimeline::operator=(ClusterTimeline&&) noexcept = default;

std::string ClusterTimeline::lastError() const { return impl_->error; }

bool ClusterTimeline::open(const std::string& trace) {
  const Status status = [&]() -> Status {
    Result<std::unique_ptr<Reader>> reader = Reader::open(trace);
    if (!reader) return reader.status();
    Result<std::unique_ptr<sync::TraceClock>> clock = sync::TraceClock::load(**reader);
    if (!clock) return clock.status();
    Result<sync::Clocks> clocks = sync::readClocks(**reader);
    if (!clocks) return clocks.status();
    impl_->tables.clear();
    impl_->reader = std::move(*reader);
    impl_->clock = std::move(*clock);
    if (!impl_->clock && !clocks->empty()) impl_->only = clocks->begin()->second;
    return {};
  }();
  impl_->error = status.message();
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
    impl_->tables.push_back(std::make_unique<Impl::Rows>(*impl_->reader, *table, all));
  }
  start_time = first <= last ? static_cast<Timestamp>(impl_->only.toReference(first)) : 0;
  end_time = first <= last ? static_cast<Timestamp>(impl_->only.toReference(last)) : 0;
  return true;
}

bool ClusterTimeline::next(std::string& node_id, tracesmith::TraceEvent& event) {
  Impl::Rows* earliest = nullptr;
  for (const auto& rows : impl_->tables) {
    if (!rows->order.status()) {
      impl_->error = rows->order.status().message();
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
