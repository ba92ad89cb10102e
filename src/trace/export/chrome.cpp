#include "trace/export/chrome.hpp"

#include "trace/category.hpp"

namespace tracesmith::trace {

std::string_view chromeCategory(EventType type) {
  static constexpr std::string_view kCategories[kEventTypes] = {
      "kernel",   "gpu_memcpy", "gpu_memset",      "cuda_runtime",        "cuda_driver",     "cuda_sync", "cuda_graph",
      "overhead", "cpu_op",     "user_annotation", "gpu_user_annotation", "python_function", "",          ""};
  auto i = static_cast<unsigned>(type);
  return kCategories[i < kEventTypes ? i : kEventTypes - 1];
}

int64_t chromeBaseNs(const Reader& reader, const CommonClock* clock) {
  constexpr int64_t kExact = 9'000'000'000'000'000;  // about 2^53: doubles of µs below it tell nanoseconds apart
  constexpr int64_t kStep = 1'000'000'000'000'000;
  int64_t start, end;
  tableTimes(reader, tableOf<EventRow>(), clock, start, end);
  return start < kExact ? 0 : start / kStep * kStep;
}

void appendMicroseconds(std::string& out, int64_t ns) {
  auto magnitude = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  if (ns < 0) out += '-';
  out += std::to_string(magnitude / 1000);
  auto rest = static_cast<unsigned>(magnitude % 1000);
  out += {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
          static_cast<char>('0' + rest % 10)};
}

JsonWriter Chrome::open(const char* phase) {
  line_ = first_ ? "\n" : ",\n";
  first_ = false;
  JsonWriter json(line_);
  json.beginObject().field("ph", phase);
  return json;
}

Status Chrome::close(JsonWriter& json) {
  json.endObject();
  return export_.out.write(line_);
}

void Chrome::microseconds(JsonWriter& json, const char* key, int64_t ns) {
  json.key(key);
  number_.clear();
  appendMicroseconds(number_, ns);
  json.raw(number_);
}

void Chrome::time(JsonWriter& json, int64_t ts) {
  microseconds(json, "ts", static_cast<int64_t>(static_cast<uint64_t>(ts) - static_cast<uint64_t>(base_ns_)));
}

void Chrome::place(JsonWriter& json, int64_t pid, int64_t tid) {
  if (pid != kNull) json.field("pid", pid);
  if (tid != kNull) json.field("tid", tid);
}

Status Chrome::run() {
  const Reader& reader = export_.reader;
  TS_TRY(names_.load(reader));
  Result<std::vector<int64_t>> ranks =
      ranksOf(reader, {&tableOf<EventRow>(), &tableOf<CounterRow>()}, export_.selection);
  if (!ranks) return ranks.status();
  base_ns_ = chromeBaseNs(reader, export_.selection.clock);
  several_ = ranks->size() > 1;
  TS_TRY(appendChromeHeader(line_, reader, ranks->size() == 1 ? ranks->front() : kNull, base_ns_));
  TS_TRY(export_.out.write(line_));
  for (const std::vector<int64_t>& batch : rankBatches(*ranks)) {
    TS_TRY(loadCollectives(batch));
    for (int64_t rank : batch) {
      ++rank_index_;
      TS_TRY(processNames(rank));
      TS_TRY(threadNames(rank));
      TS_TRY(correlate(rank));
      TS_TRY(steps(rank));
      TS_TRY(events(rank));
      TS_TRY(flows(rank));
      TS_TRY(counters(rank));
    }
  }
  TS_TRY(metrics());
  return export_.out.write("\n]}\n");
}

Status Chrome::events(int64_t rank) {
  const uint64_t total = export_.reader.rows(tableOf<EventRow>());
  TimeOrder order = rows(tableOf<EventRow>(), rank, {});
  while (order.next()) {
    const Row& row = order.row();
    if ((++export_.rows & 0xffff) == 0) export_.progress.update(export_.rows, total);
    std::string_view node = row.text(events::node);
    auto type = static_cast<EventType>(row.slot(events::type));
    const bool on_device = isOnDevice(row), has_end = row.slot(events::dur) != kNull;
    int64_t pid = row.slot(events::pid), tid = row.slot(on_device ? events::stream : events::tid);
    Status described;
    pid = on_device ? devicePid(node, rank, pid, row.slot(events::device), described)
                    : hostPid(node, rank, pid, described);
    TS_TRY(described);

    std::string_view text = row.text(events::args);
    const bool is_object = args_.parse(text);
    // The importer keeps a category that is not Kineto's own at the end of args.
    std::string_view category = args_.takeLastString(args_.has("event cat") ? "event cat" : "cat");
    if (!category.empty() && type != EventType::marker &&
        typeOfCategory(category.substr(1, category.size() - 2)) != type) {
      category = {};
      args_.parse(text);
    }
    JsonWriter json = open(type == EventType::marker && !has_end ? "i" : "X");
    if (!category.empty())
      json.key("cat").raw(category);
    else if (!chromeCategory(type).empty())
      json.field("cat", chromeCategory(type));
    json.field("name", row.text(events::name));
    place(json, pid, tid);
    time(json, order.ts());
    if (has_end) microseconds(json, "dur", row.slot(events::dur));
    if (int64_t flow = row.slot(events::flow); flow != kNull) json.field("bind_id", flow);
    json.key("args").beginObject();
    eventArgs(json, row, rank, on_device);
    if (!args_.members().empty()) json.raw(args_.members());
    if (!is_object && !text.empty()) json.field("args", text);
    json.endObject();
    TS_TRY(close(json));
    TS_TRY(arrow(row, isDeviceType(type), pid, tid));
  }
  return order.status();
}

/// Columns under the names Kineto gives them.
void Chrome::eventArgs(JsonWriter& json, const Row& row, int64_t rank, bool on_device) {
  auto add = [&](const char* key, int64_t v) {
    if (v != kNull && !args_.has(key)) json.field(key, v);
  };
  add("External id", row.slot(events::external_id));
  if (on_device) {
    add("device", row.slot(events::device));
    add("stream", row.slot(events::stream));
  }
  add("context", row.slot(events::context));
  add("correlation", row.slot(events::correlation));
  add("bytes", row.slot(events::bytes));
  add("graph id", row.slot(events::graph));
  add("graph node id", row.slot(events::graph_node));
  if (std::string_view text = row.text(events::launch); !text.empty()) {
    const LaunchShape s = LaunchShape::parse(text);
    using Number = std::optional<int32_t>;
    auto known = [](Number v) { return v ? *v : kNull; };
    auto size = [&](const char* key, Number x, Number y, Number z) {
      if (x && y && z && !args_.has(key)) json.key(key).beginArray().value(*x).value(*y).value(*z).endArray();
    };
    add("registers per thread", known(s.registers));
    // Kineto knows only the sum.
    add(s.shared_dynamic ? "static shared memory" : "shared memory", known(s.shared_static));
    add("dynamic shared memory", known(s.shared_dynamic));
    size("grid", s.grid_x, s.grid_y, s.grid_z);
    size("block", s.block_x, s.block_y, s.block_z);
  }
  if (row.slot(events::type) == static_cast<int64_t>(EventType::kernel))
    collectiveArgs(json, rank, row.slot(events::correlation));
}

void Chrome::collectiveArgs(JsonWriter& json, int64_t rank, int64_t correlation) {
  const auto& of_rank = collectives_[rank];
  auto it = of_rank.find(correlation);
  if (it == of_rank.end() || args_.has("Collective name")) return;
  const Collective& c = it->second;
  if (!c.comm.data() && !c.dtype.data() && c.elements == kNull && c.seq == kNull)
    return;  // the kernel's name says as much
  auto add = [&](const char* key, int64_t v) {
    if (v != kNull && !args_.has(key)) json.field(key, v);
  };
  auto addText = [&](const char* key, std::string_view v) {
    if (v.data() && !args_.has(key)) json.field(key, v);
  };
  addText("Collective name", c.op);
  addText("Process Group Name", c.comm);
  addText("dtype", c.dtype);
  add(c.op == "reduce_scatter" || c.op == "recv" || c.op == "scatter" ? "Out msg nelems" : "In msg nelems", c.elements);
  add("Group size", c.group_size);
  add("Seq", c.seq);
  add(c.op == "send" ? "Dst Rank" : c.op == "recv" ? "Src Rank" : "Root Rank", c.peer);
}

Status exportChrome(Export& e) { return Chrome(e).run(); }

}  // namespace tracesmith::trace
