// The tables beside `events`, as far as Chrome's format has a place for them.
#include "trace/export/chrome.hpp"

namespace tracesmith::trace {

/// What events() needs to know of other rows of the rank.
Status Chrome::correlate(int64_t rank) {
  launched_ = {};
  ran_ = {};
  collectives_.clear();
  draw_launches_ = true;
  TimeOrder given = rows(tableOf<FlowRow>(), rank, {flows::ts, flows::rank, flows::kind});
  while (draw_launches_ && given.next()) draw_launches_ = !isLaunchFlow(given.row().text(flows::kind));
  TS_TRY(given.status());
  if (draw_launches_) {
    TimeOrder order =
        rows(tableOf<EventRow>(), rank, {events::ts, events::dur, events::type, events::rank, events::correlation});
    while (order.next()) {
      int64_t id = order.row().slot(events::correlation);
      if (id != kNull)
        (isDeviceType(static_cast<EventType>(order.row().slot(events::type))) ? ran_ : launched_).insert(id);
    }
    TS_TRY(order.status());
  }
  TimeOrder order = rows(tableOf<CollectiveRow>(), rank, {});
  while (order.next()) {
    const Row& r = order.row();
    if (int64_t id = r.slot(collectives::correlation); id != kNull)
      collectives_[id] = {r.text(collectives::op),       r.text(collectives::comm),       r.text(collectives::dtype),
                          r.slot(collectives::elements), r.slot(collectives::group_size), r.slot(collectives::seq),
                          r.slot(collectives::peer)};
  }
  return order.status();
}

int64_t Chrome::arrowId(int64_t id) const {
  return several_ ? static_cast<int64_t>((rank_index_ << 32) + static_cast<uint64_t>(id)) : id;
}

/// Kineto's arrow from a launch to what it started: "s" at the one, "f" at the other.
Status Chrome::arrow(const Row& row, bool on_device, int64_t pid, int64_t tid) {
  int64_t id = row.slot(events::correlation);
  if (!draw_launches_ || id == kNull || !launched_.contains(id) || !ran_.contains(id)) return {};
  JsonWriter json = open(on_device ? "f" : "s");
  json.field("id", arrowId(id));
  place(json, pid, tid);
  time(json, row.slot(events::ts));
  json.field("cat", "ac2g").field("name", "ac2g");
  if (on_device) json.field("bp", "e");
  return close(json);
}

/// Tools know steps by the ranges the PyTorch profiler makes of them; where a trace has other steps, they are written
/// as such.
Status Chrome::steps(int64_t rank) {
  TimeOrder order = rows(tableOf<StepRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    int64_t step = row.slot(steps::step), pid = row.slot(steps::pid);
    if (step == kNull || row.text(steps::name).starts_with("ProfilerStep#")) continue;
    Status described;
    int64_t number = hostPid(row.text(steps::node), rank, pid, described);
    TS_TRY(described);
    ++export_.rows;
    JsonWriter json = open("X");
    json.field("cat", "user_annotation").field("name", "ProfilerStep#" + std::to_string(step));
    place(json, number, pid);  // the main thread has the number of its process
    time(json, order.ts());
    microseconds(json, "dur", order.dur());
    TS_TRY(close(json));
  }
  return order.status();
}

Status Chrome::flows(int64_t rank) {
  TimeOrder order = rows(tableOf<FlowRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    std::string_view phase = row.text(flows::phase), kind = row.text(flows::kind), args = row.text(flows::args);
    Status described;
    int64_t number = trackPid(row.text(flows::node), rank, row.slot(flows::pid), described);
    TS_TRY(described);
    JsonWriter json = open(phase == "end" ? "f" : phase == "step" ? "t" : "s");
    if (int64_t id = row.slot(flows::id); id != kNull) json.field("id", arrowId(id));
    place(json, number, row.slot(flows::tid));
    time(json, order.ts());
    json.field("cat", kind).field("name", kind);
    bool bound = args_.parse(args) && args == R"({"bp":"e"})";
    if (bound || (phase == "end" && args.empty())) json.field("bp", "e");
    if (!bound && !args_.members().empty()) json.key("args").raw(args);
    TS_TRY(close(json));
  }
  return order.status();
}

Status Chrome::counters(int64_t rank) {
  TimeOrder order = rows(tableOf<CounterRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if (row.slot(counters::value) == kNull) continue;
    Status described;
    int64_t number = hostPid(row.text(counters::node), rank, row.slot(counters::pid), described);
    TS_TRY(described);
    ++export_.rows;
    JsonWriter json = open("C");
    json.field("name", row.text(counters::name));
    place(json, number, kNull);
    time(json, order.ts());
    std::string_view series = row.text(counters::series);
    json.key("args").beginObject().field(series.data() ? series : "value", row.real(counters::value)).endObject();
    TS_TRY(close(json));
  }
  return order.status();
}

Status Chrome::metrics() {
  return forEachRow(export_.reader, tableOf<MetricRow>(), export_.selection, {}, [&](const Row& row) {
    int64_t ts = row.slot(metrics::ts);
    if (ts == kNull || row.slot(metrics::value) == kNull) return Status();
    std::string name;
    if (std::string_view node = row.text(metrics::node); several_ && node.data()) name = std::string(node) + " ";
    if (int64_t device = row.slot(metrics::device); device != kNull) name += "GPU " + std::to_string(device) + " ";
    name += row.text(metrics::name);
    if (std::string_view part = row.text(metrics::part); part.data()) name += " " + std::string(part);
    ++export_.rows;
    JsonWriter json = open("C");
    json.field("cat", "metric").field("name", name).field("pid", 0);
    time(json, ts);
    std::string_view unit = row.text(metrics::unit);
    json.key("args").beginObject().field(unit.empty() ? "value" : unit, row.real(metrics::value)).endObject();
    return close(json);
  });
}

}  // namespace tracesmith::trace
