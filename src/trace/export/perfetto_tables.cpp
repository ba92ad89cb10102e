// The tables beside `events`: each on tracks of its own.
#include <algorithm>

#include "trace/export/perfetto.hpp"

namespace tracesmith::trace {

Status Perfetto::steps(int64_t rank) {
  TimeOrder order = rows(tableOf<StepRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (!count(order.ts())) continue;
    std::string_view node = row.text(steps::node), name = row.text(steps::name);
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, steps::pid, node, rank), "steps", 1), order.ts(),
                  order.dur());
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
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, collectives::pid, node, rank), "collectives", 2), order.ts(),
                  order.dur());
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
    tracks_.begin(tracks_.ofProcess(node, rank, pidOf(row, proxy_ops::pid, node, rank), "network", 3), order.ts(),
                  order.dur());
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
    packets_.counter(
        ts, tracks_.counterOfNode(row.text(metrics::node), row.slot(metrics::device), name, row.text(metrics::unit)),
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

}  // namespace tracesmith::trace
