#include "trace/import/nsys_import.hpp"

#include <algorithm>
#include <unordered_map>

#include "trace/import/chrome_event.hpp"
#include "trace/import/sqlite.hpp"

namespace tracesmith::trace {
namespace {

using Rows = SqliteFile::Rows;

// Tables that hold what happened. Others of this kind that have rows are counted as losses.
constexpr const char *kKernels = "CUPTI_ACTIVITY_KIND_KERNEL", *kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY",
                     *kSets = "CUPTI_ACTIVITY_KIND_MEMSET", *kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                     *kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME", *kRanges = "NVTX_EVENTS";

// globalTid: the process in bits 24…47, the thread in the 24 below.
int64_t pidOf(int64_t global) { return global == kNull ? kNull : (global >> 24) & 0xffffff; }
int64_t tidOf(int64_t global) { return global == kNull ? kNull : global & 0xffffff; }

const char* copyName(int64_t kind) {
  switch (kind) {
    case 1:
      return "Memcpy HtoD";
    case 2:
      return "Memcpy DtoH";
    case 8:
      return "Memcpy DtoD";
    case 10:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

class NsysImport {
 public:
  NsysImport(SqliteFile& file, Writer& writer, RowSink::Options sink, const CollectiveOfEvent& collective_of)
      : file_(file), writer_(writer), sink_(writer, std::move(sink)), collective_of_(collective_of) {}
  Status run(int64_t rank, const std::string& node);
  Status finish(NsysResult& result);

 private:
  Status strings();
  Status facts(int64_t rank, const std::string& node);
  Status kernels();
  Status copies(const char* table, EventType type);
  Status syncs();
  Status calls();
  Status ranges();
  Status threads();
  Status devices();
  void others();
  /// Fills ts and dur; false: the row has no time, which is counted.
  bool times(const Rows& rows, EventRow& row, const char* table);
  int64_t name(int64_t id, std::string_view otherwise);
  Status add(EventRow& row, EventType type) {
    row.type = static_cast<int64_t>(type);
    sink_.add(row);
    ++result_.events;
    return sink_.state();
  }

  SqliteFile& file_;
  Writer& writer_;
  RowSink sink_;
  const CollectiveOfEvent& collective_of_;
  std::unordered_map<int64_t, std::string> strings_;
  NsysResult result_;
};

Status NsysImport::strings() {
  Rows rows = file_.rows("StringIds", {"id", "value"});
  while (rows.next()) strings_[rows.integer(0)] = std::string(rows.text(1));
  return rows.status();
}

int64_t NsysImport::name(int64_t id, std::string_view otherwise) {
  const auto it = strings_.find(id);
  return writer_.string(it == strings_.end() ? otherwise : std::string_view(it->second));
}

bool NsysImport::times(const Rows& rows, EventRow& row, const char* table) {
  const int64_t start = rows.integer(0), end = rows.integer(1);
  if (start == kNull) {
    result_.losses.add("no time", 1, std::string("a row of ") + table + " without a start");
    return false;
  }
  row.ts = start;
  if (end != kNull && end >= start) row.dur = end - start;
  result_.first_ns = result_.first_ns == kNull ? start : std::min(result_.first_ns, start);
  result_.last_ns = std::max(result_.last_ns, end == kNull ? start : end);
  return true;
}

Status NsysImport::facts(int64_t rank, const std::string& node) {
  result_.facts.rank = rank;
  std::string host = node;
  if (host.empty()) {
    Rows rows = file_.rows("TARGET_INFO_SYSTEM_ENV", {"name", "value"});
    while (rows.next())
      if (rows.text(0) == "Hostname") host = rows.text(1);
  }
  if (!host.empty()) {
    result_.facts.node = writer_.string(host);
    NodeRow row;
    row.hostname = writer_.string(host);
    sink_.add(row);
  }
  Rows start = file_.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"});
  if (start.next() && start.integer(0) != kNull) result_.facts.epoch_ns = start.integer(0);
  return start.status();
}

Status NsysImport::kernels() {
  Rows rows = file_.rows(kKernels, {"start",
                                    "end",
                                    "globalPid",
                                    "deviceId",
                                    "streamId",
                                    "contextId",
                                    "correlationId",
                                    "graphId",
                                    "graphNodeId",
                                    "demangledName",
                                    "shortName",
                                    "gridX",
                                    "gridY",
                                    "gridZ",
                                    "blockX",
                                    "blockY",
                                    "blockZ",
                                    "registersPerThread",
                                    "staticSharedMemory",
                                    "dynamicSharedMemory"});
  const ChromeEvent no_event{};
  while (rows.next()) {
    EventRow row;
    if (!times(rows, row, kKernels)) continue;
    row.pid = pidOf(rows.integer(2));
    row.device = rows.integer(3);
    row.stream = rows.integer(4);
    row.context = rows.integer(5);
    row.correlation = rows.integer(6);
    row.graph = rows.integer(7);
    row.graph_node = rows.integer(8);
    row.name = name(rows.integer(9), "kernel");
    if (!strings_.contains(rows.integer(9))) row.name = name(rows.integer(10), "kernel");
    LaunchShape shape;
    std::optional<int32_t>* fields[] = {&shape.grid_x,    &shape.grid_y,        &shape.grid_z,
                                        &shape.block_x,   &shape.block_y,       &shape.block_z,
                                        &shape.registers, &shape.shared_static, &shape.shared_dynamic};
    int column = 11;
    for (std::optional<int32_t>* field : fields)
      if (const int64_t v = rows.integer(column++); v >= 0 && v <= INT32_MAX) *field = static_cast<int32_t>(v);
    row.launch = writer_.launch(shape);
    TS_TRY(add(row, EventType::kernel));
    if (!collective_of_) continue;
    const auto text = strings_.find(rows.integer(9));
    const ImportedEvent event{no_event, text == strings_.end() ? std::string_view() : std::string_view(text->second),
                              row,      shape,
                              true,     result_.facts.rank,
                              kNull,    writer_};
    if (std::optional<CollectiveRow> collective = collective_of_(event)) {
      collective->pid = row.pid;
      sink_.add(*collective);
      ++result_.collectives;
    }
  }
  return rows.status();
}

Status NsysImport::copies(const char* table, EventType type) {
  Rows rows = file_.rows(table, {"start", "end", "globalPid", "deviceId", "streamId", "contextId", "correlationId",
                                 "graphNodeId", "bytes", "copyKind"});
  while (rows.next()) {
    EventRow row;
    if (!times(rows, row, table)) continue;
    row.pid = pidOf(rows.integer(2));
    row.device = rows.integer(3);
    row.stream = rows.integer(4);
    row.context = rows.integer(5);
    row.correlation = rows.integer(6);
    row.graph_node = rows.integer(7);
    row.bytes = rows.integer(8);
    row.name = writer_.string(type == EventType::memset ? "Memset" : copyName(rows.integer(9)));
    TS_TRY(add(row, type));
  }
  return rows.status();
}

Status NsysImport::syncs() {
  Rows rows = file_.rows(
      kSyncs, {"start", "end", "globalPid", "deviceId", "streamId", "contextId", "correlationId", "syncType"});
  static constexpr const char* kNames[] = {"Synchronize", "Event Synchronize", "Stream Wait Event",
                                           "Stream Synchronize", "Context Synchronize"};
  while (rows.next()) {
    EventRow row;
    if (!times(rows, row, kSyncs)) continue;
    row.pid = pidOf(rows.integer(2));
    row.device = rows.integer(3);
    row.stream = rows.integer(4);
    row.context = rows.integer(5);
    row.correlation = rows.integer(6);
    const int64_t kind = rows.integer(7);
    row.name = writer_.string(kNames[kind > 0 && kind < 5 ? kind : 0]);
    TS_TRY(add(row, EventType::sync));
  }
  return rows.status();
}

Status NsysImport::calls() {
  Rows rows = file_.rows(kCalls, {"start", "end", "globalTid", "correlationId", "nameId"});
  while (rows.next()) {
    EventRow row;
    if (!times(rows, row, kCalls)) continue;
    row.pid = pidOf(rows.integer(2));
    row.tid = tidOf(rows.integer(2));
    row.correlation = rows.integer(3);
    // "cudaLaunchKernel_v7000": nsys adds the version of the interface.
    const auto found = strings_.find(rows.integer(4));
    std::string_view call = found == strings_.end() ? std::string_view("call") : std::string_view(found->second);
    const size_t version = call.rfind("_v");
    if (version != call.npos && version + 2 < call.size() &&
        call.find_first_not_of("0123456789", version + 2) == call.npos)
      call = call.substr(0, version);
    row.name = writer_.string(call);
    TS_TRY(add(row, call.starts_with("cu") && !call.starts_with("cuda") ? EventType::driver : EventType::runtime));
  }
  return rows.status();
}

Status NsysImport::ranges() {
  constexpr int64_t kMark = 34, kPushPop = 59, kStartEnd = 60;
  Rows rows = file_.rows(kRanges, {"start", "end", "globalTid", "eventType", "text", "textId"});
  while (rows.next()) {
    const int64_t kind = rows.integer(3);
    if (kind != kMark && kind != kPushPop && kind != kStartEnd) continue;  // names of domains and categories
    EventRow row;
    if (!times(rows, row, kRanges)) continue;
    row.pid = pidOf(rows.integer(2));
    row.tid = tidOf(rows.integer(2));
    const std::string_view text = rows.text(4);
    row.name = text.empty() ? name(rows.integer(5), "") : writer_.string(text);
    TS_TRY(add(row, kind == kMark ? EventType::marker : EventType::annotation));
  }
  return rows.status();
}

Status NsysImport::threads() {
  Rows names = file_.rows("ThreadNames", {"globalTid", "nameId"});
  while (names.next()) {
    ThreadRow row;
    row.pid = pidOf(names.integer(0));
    row.tid = tidOf(names.integer(0));
    row.name = name(names.integer(1), "");
    sink_.add(row);
  }
  TS_TRY(names.status());
  Rows processes = file_.rows("PROCESSES", {"pid", "name"});
  while (processes.next()) {
    ProcessRow row;
    row.pid = processes.integer(0);
    row.name = writer_.string(processes.text(1));
    sink_.add(row);
  }
  return processes.status();
}

Status NsysImport::devices() {
  Rows rows = file_.rows("TARGET_INFO_GPU", {"id", "name", "uuid", "busLocation", "totalMemory", "smCount",
                                             "computeMajor", "computeMinor"});
  while (rows.next()) {
    DeviceRow row;
    row.device = rows.integer(0);
    row.name = writer_.string(rows.text(1));
    row.vendor = writer_.string("nvidia");
    if (!rows.text(2).empty()) row.uuid = writer_.string(rows.text(2));
    if (!rows.text(3).empty()) row.pci = writer_.string(rows.text(3));
    row.memory = rows.integer(4);
    row.sms = rows.integer(5);
    row.cc_major = rows.integer(6);
    row.cc_minor = rows.integer(7);
    sink_.add(row);
  }
  return rows.status();
}

/// What a report holds besides.
void NsysImport::others() {
  for (const std::string& table : file_.tables()) {
    const bool read = table == kKernels || table == kCopies || table == kSets || table == kSyncs || table == kCalls ||
                      table == kRanges;
    const bool happened = table.starts_with("CUPTI_ACTIVITY_KIND_") || table.ends_with("_EVENTS") ||
                          table.ends_with("_API") || table == "GPU_METRICS" || table.starts_with("CUDA_GPU_MEMORY");
    if (read || !happened || table == "DIAGNOSTIC_EVENTS") continue;
    if (const uint64_t rows = file_.count(table); rows > 0)
      result_.losses.add("table not read", rows, "rows of " + table + ", which have no place in a trace");
  }
  Rows said = file_.rows("DIAGNOSTIC_EVENT", {"text"});
  while (said.next()) {
    const std::string_view text = said.text(0);
    if (text.find("dropped") != text.npos || text.find(" lost") != text.npos)
      result_.losses.add("lost by nsys", 1, text);
  }
}

Status NsysImport::run(int64_t rank, const std::string& node) {
  if (file_.columns("StringIds").empty())
    return Status::corrupt("it is no report of Nsight Systems: it has no table StringIds");
  TS_TRY(strings());
  TS_TRY(facts(rank, node));
  TS_TRY(devices());
  TS_TRY(threads());
  TS_TRY(kernels());
  TS_TRY(copies(kCopies, EventType::memcpy));
  TS_TRY(copies(kSets, EventType::memset));
  TS_TRY(syncs());
  TS_TRY(calls());
  TS_TRY(ranges());
  others();
  return {};
}

Status NsysImport::finish(NsysResult& result) {
  writeLosses(result_.losses, writer_, sink_);
  StepsOfRanks none;
  TS_TRY(sink_.finish(result_.facts, none));
  result = std::move(result_);
  return {};
}

}  // namespace

Result<NsysResult> importNsys(const std::string& path, Writer& writer, RowSink::Options sink, int64_t rank,
                              const std::string& node, const CollectiveOfEvent& collective_of) {
  Result<std::unique_ptr<SqliteFile>> file = SqliteFile::open(path);
  if (!file) return file.status();
  NsysImport import(**file, writer, std::move(sink), collective_of);
  if (Status s = import.run(rank, node); !s) return Status(s.code(), path + ": " + s.message());
  NsysResult result;
  TS_TRY(import.finish(result));
  return result;
}

}  // namespace tracesmith::trace
