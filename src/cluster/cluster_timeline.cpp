#include <unistd.h>

#include <algorithm>

#include "cluster/trace_events.hpp"
#include "sync/align.hpp"
#include "trace/export/time_order.hpp"
#include "tracesmith/cluster/cluster_types.hpp"

namespace tracesmith::cluster {

using namespace trace;

struct ClusterTimeline::Impl {
  struct Rows {
    Rows(const Reader& reader, const TableInfo& of)
        : table(&of), order(reader, of, {}, traceEventColumns(of), reader.blocks(of)), more(order.next()) {}
    const TableInfo* table;
    TimeOrder order;
    bool more;
  };
  std::unique_ptr<Reader> reader;
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
    Result<std::unique_ptr<Reader>> raw = Reader::open(trace);
    if (!raw) return raw.status();
    const std::string copy = trace + ".aligned" + std::to_string(::getpid());
    TS_TRY(sync::alignTrace(**raw, copy));
    Result<std::unique_ptr<Reader>> aligned = Reader::open(copy);
    ::unlink(copy.c_str());  // open, it is still readable
    if (!aligned) return aligned.status();
    impl_->tables.clear();
    impl_->reader = std::move(*aligned);
    return {};
  }();
  impl_->error = status.message();
  if (!status) return false;
  int64_t first = INT64_MAX, last = INT64_MIN;
  event_count = 0;
  for (const TableInfo* table : {&tableOf<EventRow>(), &tableOf<CollectiveRow>()}) {
    for (const Block* block : impl_->reader->blocks(*table)) {
      int64_t low, high;
      if (block->zone(table->find("ts"), low, high)) first = std::min(first, low), last = std::max(last, high);
      if (block->zone(table->find("ts_end"), low, high)) last = std::max(last, high);
    }
    event_count += impl_->reader->rows(*table);
    impl_->tables.push_back(std::make_unique<Impl::Rows>(*impl_->reader, *table));
  }
  start_time = first <= last ? static_cast<Timestamp>(first) : 0;
  end_time = first <= last ? static_cast<Timestamp>(last) : 0;
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
  earliest->more = earliest->order.next();
  return true;
}

}  // namespace tracesmith::cluster
