// A trace as Kineto writes it: Chrome's JSON, event by event, rank by rank.
#include "trace/export/chrome.hpp"

#include <unordered_map>

#include "base/text.hpp"
#include "trace/export/export.hpp"
#include "trace/export/id_set.hpp"
#include "trace/export/ranks.hpp"

namespace tracesmith::trace {
namespace {

/// What Kineto says in the args of a collective's kernel.
struct CollectiveArgs {
  std::string_view op, comm, dtype;
  int64_t elements, group_size, seq, bytes;
};

class Chrome {
 public:
  explicit Chrome(Export& e) : export_(e) {}

  Status run() {
    const Reader& reader = export_.reader;
    TS_TRY(names_.load(reader));
    Result<std::vector<int64_t>> ranks =
        ranksOf(reader, {&tableOf<EventRow>(), &tableOf<CounterRow>()}, export_.selection);
    if (!ranks) return ranks.status();
    base_ns_ = chromeBaseNs(reader);
    several_ = ranks->size() > 1;
    pids_ = ChromePids(several_);
    TS_TRY(appendChromeHeader(line_, reader, ranks->size() == 1 ? ranks->front() : kNull, base_ns_));
    TS_TRY(export_.out.write(line_));
    for (int64_t rank : *ranks) {
      ++rank_index_;
      TS_TRY(threadNames(rank));
      TS_TRY(correlate(rank));
      TS_TRY(events(rank));
      TS_TRY(flows(rank));
      TS_TRY(counters(rank));
    }
    TS_TRY(metrics());
    return export_.out.write("\n]}\n");
  }

 private:
  TimeOrder rows(const TableInfo& table, int64_t rank, std::vector<int> columns) {
    return rowsOfRank(export_.reader, table, export_.selection, rank, std::move(columns));
  }

  /// Starts an event; close() writes it.
  JsonWriter open(const char* phase) {
    line_ = first_ ? "\n" : ",\n";
    first_ = false;
    JsonWriter json(line_);
    json.beginObject().field("ph", phase);
    return json;
  }
  Status close(JsonWriter& json) {
    json.endObject();
    return export_.out.write(line_);
  }
  void microseconds(JsonWriter& json, const char* key, int64_t ns) {
    json.key(key);
    number_.clear();
    appendMicroseconds(number_, ns);
    json.raw(number_);
  }
  void time(JsonWriter& json, int64_t ts) {
    microseconds(json, "ts", static_cast<int64_t>(static_cast<uint64_t>(ts) - static_cast<uint64_t>(base_ns_)));
  }
  void place(JsonWriter& json, int64_t pid, int64_t tid) {
    if (pid != kNull) json.field("pid", pid);
    if (tid != kNull) json.field("tid", tid);
  }

  template <typename Fill>
  Status metadata(const char* name, int64_t pid, int64_t tid, Fill fill);
  Status describe(int64_t number, std::string_view node, int64_t rank, int64_t pid, int64_t device);
  int64_t hostPid(std::string_view node, int64_t rank, int64_t pid, Status& status);
  int64_t devicePid(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status);
  Status threadNames(int64_t rank);
  Status correlate(int64_t rank);
  Status events(int64_t rank);
  void eventArgs(JsonWriter& json, const Row& row, EventType type);
  Status arrow(const Row& row, bool on_device, int64_t pid, int64_t tid);
  /// Arrows are joined by their number in the whole file, but numbers are given out rank by rank.
  int64_t arrowId(int64_t id) const {
    return several_ ? static_cast<int64_t>((rank_index_ << 32) + static_cast<uint64_t>(id)) : id;
  }
  Status flows(int64_t rank);
  Status counters(int64_t rank);
  Status metrics();

  Export& export_;
  Names names_;
  ChromePids pids_{false};
  bool several_ = false, first_ = true;
  uint64_t rank_index_ = 0;
  int64_t base_ns_ = 0;
  std::string line_, number_;
  ChromeArgs args_;
  IdSet launched_, ran_;
  bool draw_launches_ = true;
  std::unordered_map<int64_t, CollectiveArgs> collectives_;
};

/// Writes a metadata event of a process; fill(json) writes its args.
template <typename Fill>
Status Chrome::metadata(const char* name, int64_t pid, int64_t tid, Fill fill) {
  JsonWriter json = open("M");
  json.field("name", name);
  place(json, pid, tid);
  json.key("args").beginObject();
  fill(json);
  json.endObject();
  return close(json);
}

/// Metadata of a process or GPU, before its first event.
Status Chrome::describe(int64_t number, std::string_view node, int64_t rank, int64_t pid, int64_t device) {
  std::string name(names_.program(node, rank, pid));
  if (several_) name = names_.process(node, rank, pid);
  if (device != kNull)
    name = (several_ && rank != kNull ? "rank " + std::to_string(rank) + " · " : "") + names_.device(node, device);
  TS_TRY(metadata("process_name", number, 0, [&](JsonWriter& json) { json.field("name", name); }));
  std::string label = device == kNull ? "CPU" : "GPU " + std::to_string(device);
  TS_TRY(metadata("process_labels", number, 0, [&](JsonWriter& json) { json.field("labels", label); }));
  if (!several_) return {};
  // Who it really is, as the numbers of this file are not those of the system.
  return metadata("tracesmith_process", number, 0, [&](JsonWriter& json) {
    if (!node.empty()) json.field("node", node);
    if (rank != kNull) json.field("rank", rank);
    if (pid != kNull) json.field("pid", pid);
    if (device != kNull) json.field("device", device);
    if (device == kNull) json.field("name", names_.program(node, rank, pid));
  });
}

int64_t Chrome::hostPid(std::string_view node, int64_t rank, int64_t pid, Status& status) {
  if (pid == kNull && !several_) return kNull;
  bool first;
  int64_t number = pids_.host(node, rank, pid, first);
  if (first) status = describe(number, node, rank, pid, kNull);
  return number;
}

int64_t Chrome::devicePid(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status) {
  if (device == kNull) return hostPid(node, rank, pid, status);
  bool first;
  int64_t number = pids_.device(node, rank, pid, device, first);
  if (first) status = describe(number, node, rank, pid, device);
  return number;
}

Status Chrome::threadNames(int64_t rank) {
  return forEachRow(export_.reader, tableOf<ThreadRow>(), {}, {}, [&](const Row& row) {
    if (row.slot(threads::rank) != rank || !row.text(threads::name).data()) return Status();
    std::string_view node = row.text(threads::node);
    int64_t pid = row.slot(threads::pid);
    Status described;
    // A row of a stream has the device where others have the process.
    bool is_device = pid != kNull && !names_.isProcess(node, rank, pid) && names_.isDevice(node, pid);
    int64_t number = is_device ? devicePid(node, rank, names_.pidOf(node, rank), pid, described)
                               : hostPid(node, rank, pid, described);
    TS_TRY(described);
    return metadata("thread_name", number, row.slot(threads::tid),
                    [&](JsonWriter& json) { json.field("name", row.text(threads::name)); });
  });
}

Status Chrome::correlate(int64_t rank) {
  launched_ = {};
  ran_ = {};
  collectives_.clear();
  draw_launches_ = true;
  TimeOrder events =
      rows(tableOf<EventRow>(), rank, {events::ts, events::dur, events::type, events::rank, events::correlation});
  while (events.next()) {
    int64_t id = events.row().slot(events::correlation);
    if (id != kNull)
      (isDeviceType(static_cast<EventType>(events.row().slot(events::type))) ? ran_ : launched_).insert(id);
  }
  TS_TRY(events.status());
  TimeOrder given = rows(tableOf<FlowRow>(), rank, {flows::ts, flows::rank, flows::kind});
  while (draw_launches_ && given.next()) draw_launches_ = given.row().text(flows::kind) != "ac2g";
  TS_TRY(given.status());
  TimeOrder joined = rows(tableOf<CollectiveRow>(), rank, {});
  while (joined.next()) {
    const Row& r = joined.row();
    if (int64_t id = r.slot(collectives::correlation); id != kNull)
      collectives_[id] = {r.text(collectives::op),       r.text(collectives::comm),       r.text(collectives::dtype),
                          r.slot(collectives::elements), r.slot(collectives::group_size), r.slot(collectives::seq),
                          r.slot(collectives::bytes)};
  }
  return joined.status();
}

Status Chrome::events(int64_t rank) {
  const uint64_t total = export_.reader.rows(tableOf<EventRow>());
  TimeOrder order = rows(tableOf<EventRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if ((++export_.rows & 0xffff) == 0) export_.progress.update(export_.rows, total);
    std::string_view node = row.text(events::node);
    auto type = static_cast<EventType>(row.slot(events::type));
    const bool on_device = isDeviceType(type), has_end = row.slot(events::dur) != kNull;
    Status described;
    int64_t pid = row.slot(events::pid);
    int64_t number = on_device ? devicePid(node, rank, pid == kNull ? names_.pidOf(node, rank) : pid,
                                           row.slot(events::device), described)
                               : hostPid(node, rank, pid, described);
    TS_TRY(described);
    int64_t tid = row.slot(on_device ? events::stream : events::tid);
    JsonWriter json = open(has_end ? "X" : "i");
    json.field("cat", chromeCategory(type)).field("name", row.text(events::name));
    if (!has_end) json.field("s", "t");
    place(json, number, tid);
    time(json, order.ts());
    if (has_end) microseconds(json, "dur", row.slot(events::dur));
    eventArgs(json, row, type);
    TS_TRY(close(json));
    TS_TRY(arrow(row, on_device, number, tid));
  }
  return order.status();
}

void Chrome::eventArgs(JsonWriter& json, const Row& row, EventType type) {
  std::string_view text = row.text(events::args);
  bool is_object = args_.parse(text);
  json.key("args").beginObject();
  auto add = [&](const char* key, int64_t v) {
    if (v != kNull && !args_.has(key)) json.field(key, v);
  };
  add("External id", row.slot(events::external_id));
  if (isDeviceType(type) || type == EventType::sync) {
    add("device", row.slot(events::device));
    add("stream", row.slot(events::stream));
  }
  add("context", row.slot(events::context));
  add("correlation", row.slot(events::correlation));
  add("bytes", row.slot(events::bytes));
  add("graph id", row.slot(events::graph));
  add("graph node id", row.slot(events::graph_node));
  add("step", row.slot(events::step));
  add("flow", row.slot(events::flow));
  if (std::string_view shape = row.text(events::launch); !shape.empty()) {
    LaunchShape s = LaunchShape::parse(shape);
    auto unknown = [](int32_t v) { return v < 0 ? kNull : v; };
    auto size = [&](const char* key, int32_t x, int32_t y, int32_t z) {
      if (x < 0 || args_.has(key)) return;
      json.key(key).beginArray().value(x).value(y).value(z).endArray();
    };
    add("registers per thread", unknown(s.registers));
    add("static shared memory", unknown(s.shared_static));
    add("dynamic shared memory", unknown(s.shared_dynamic));
    if (s.shared_static >= 0 || s.shared_dynamic >= 0)
      add("shared memory", std::max(s.shared_static, 0) + int64_t{std::max(s.shared_dynamic, 0)});
    size("grid", s.grid_x, s.grid_y, s.grid_z);
    size("block", s.block_x, s.block_y, s.block_z);
  }
  if (auto it = collectives_.find(row.slot(events::correlation));
      type == EventType::kernel && it != collectives_.end()) {
    const CollectiveArgs& c = it->second;
    auto addText = [&](const char* key, std::string_view v) {
      if (v.data() && !args_.has(key)) json.field(key, v);
    };
    addText("Collective name", c.op);
    addText("Process Group Name", c.comm);
    addText("dtype", c.dtype);
    add("In msg nelems", c.elements);
    add("Group size", c.group_size);
    add("Seq", c.seq);
    if (c.elements == kNull) add("Message bytes", c.bytes);
  }
  if (!args_.members().empty()) json.raw(args_.members());
  if (!is_object && !text.empty()) json.field("args", text);
  json.endObject();
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

Status Chrome::flows(int64_t rank) {
  TimeOrder order = rows(tableOf<FlowRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    std::string_view node = row.text(flows::node), phase = row.text(flows::phase), kind = row.text(flows::kind);
    int64_t pid = row.slot(flows::pid);
    bool is_device = pid != kNull && !names_.isProcess(node, rank, pid) && names_.isDevice(node, pid);
    Status described;
    int64_t number = is_device ? devicePid(node, rank, names_.pidOf(node, rank), pid, described)
                               : hostPid(node, rank, pid, described);
    TS_TRY(described);
    JsonWriter json = open(phase == "end" ? "f" : phase == "step" ? "t" : "s");
    if (int64_t id = row.slot(flows::id); id != kNull) json.field("id", arrowId(id));
    place(json, number, row.slot(flows::tid));
    time(json, order.ts());
    json.field("cat", kind).field("name", kind);
    if (phase == "end") json.field("bp", "e");
    if (args_.parse(row.text(flows::args)) && !args_.members().empty()) json.key("args").raw(row.text(flows::args));
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

}  // namespace

Status exportChrome(Export& e) { return Chrome(e).run(); }

}  // namespace tracesmith::trace
