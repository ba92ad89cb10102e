// Tables of Nsight Systems, as `nsys export --type sqlite` writes them. Times count from the start of its session;
// global process and thread numbers carry the process in bits 24 to 47 and the thread below.
#include "trace/import/database_source.hpp"

namespace tracesmith::trace {
namespace {

constexpr std::string_view kKernels = "CUPTI_ACTIVITY_KIND_KERNEL", kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY",
                           kSets = "CUPTI_ACTIVITY_KIND_MEMSET", kWaits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                           kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME",
                           kRanges = "NVTX_EVENTS", kMetrics = "GPU_METRICS";

std::string pidOf(const std::string& global) { return "(" + global + " >> 24) & 16777215"; }
std::string tidOf(const std::string& global) { return global + " & 16777215"; }

/// Builds statements over columns that may be missing.
class Nsys {
 public:
  Nsys(const Database& database, DatabaseNotes& notes) : database_(database), notes_(notes) {}
  DatabaseTrace trace();

 private:
  std::string column(std::string_view table, const char* name) const {
    return database_.column(std::string(table), name);
  }
  std::string pid(std::string_view table) const {
    const std::string global = column(table, "globalPid");
    return pidOf(global == "NULL" ? column(table, "globalTid") : global);
  }
  /// The text of a name's number, of the first of these columns that there is.
  std::string name(std::string_view table, std::initializer_list<const char*> columns) const {
    for (const char* c : columns)
      if (database_.has(std::string(table), c) && database_.has("StringIds"))
        return "(SELECT value FROM StringIds WHERE id = " + identifier(c) + ")";
    return "NULL";
  }
  std::string select(std::string_view table, const std::vector<std::string>& columns) const {
    std::string sql = "SELECT " + column(table, "start") + ", " + column(table, "end") + ", " + pid(table);
    for (const std::string& c : columns) sql += ", " + c;
    return sql + " FROM " + identifier(table);
  }
  void part(std::string_view table, std::vector<std::string> columns,
            std::function<bool(const Rows&, JsonWriter&)> write, const std::string& where = "") {
    if (!database_.has(std::string(table))) return;
    read_.emplace(table);
    trace_.parts.push_back({std::string(table), select(table, columns) + where, std::move(write)});
  }
  void processes();
  void work();
  void calls();
  void ranges();
  void metrics();
  void leaveOutOthers();
  void header(JsonWriter& json) const;

  const Database& database_;
  DatabaseNotes& notes_;
  DatabaseTrace trace_;
  std::set<std::string, std::less<>> read_;
};

void place(const Rows& row, JsonWriter& json, int device) {
  static constexpr const char* kKeys[] = {"device", "context", "stream", "correlation"};
  for (int i = 0; i < 4; ++i)
    if (row.has(device + i)) json.field(kKeys[i], row.number(device + i));
}

bool event(const Rows& row, JsonWriter& json, const char* category, std::string_view name) {
  json.field("ph", "X").field("cat", category).field("name", name.empty() ? "unknown" : name);
  if (row.has(2)) json.field("pid", row.number(2));
  return row.has(0) && row.has(1) && writeTimes(json, row.number(0), row.number(1));
}

void shape(const Rows& row, JsonWriter& json, const char* key, int column) {
  if (!row.has(column)) return;
  json.key(key).beginArray();
  for (int i = 0; i < 3; ++i) json.value(row.number(column + i));
  json.endArray();
}

/// Device work, and what the host waits for.
void Nsys::work() {
  const std::vector<std::string> places = {"deviceId", "contextId", "streamId", "correlationId"};
  auto with = [&](std::string_view table, std::vector<std::string> more) {
    std::vector<std::string> all;
    for (const std::string& p : places) all.push_back(column(table, p.c_str()));
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::vector<std::string> kernel = {name(kKernels, {"demangledName", "shortName", "mangledName", "name"})};
  for (const char* c : {"gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
                        "staticSharedMemory", "dynamicSharedMemory", "graphId", "graphNodeId"})
    kernel.push_back(column(kKernels, c));
  part(kKernels, with(kKernels, kernel), [](const Rows& row, JsonWriter& json) {
    if (!event(row, json, "kernel", row.text(7))) return false;
    json.key("args").beginObject();
    place(row, json, 3);
    shape(row, json, "grid", 8);
    shape(row, json, "block", 11);
    static constexpr const char* kKeys[] = {"registers per thread", "static shared memory", "dynamic shared memory",
                                            "graph id", "graph node id"};
    for (int i = 0; i < 5; ++i)
      if (row.has(14 + i) && (i < 3 || row.number(14 + i) != 0)) json.field(kKeys[i], row.number(14 + i));
    json.endObject();
    return true;
  });
  part(kCopies, with(kCopies, {column(kCopies, "bytes"), column(kCopies, "copyKind")}),
       [](const Rows& row, JsonWriter& json) {
         static constexpr const char* kKinds[][2] = {{},         {"H", "D"}, {"D", "H"}, {"H", "A"},
                                                     {"A", "H"}, {"A", "A"}, {"A", "D"}, {"D", "A"},
                                                     {"D", "D"}, {"H", "H"}, {"P", "P"}};
         const int64_t kind = row.number(8);
         const std::string name = kind > 0 && kind <= 10 ? copyName(kKinds[kind][0], kKinds[kind][1]) : "Memcpy";
         if (!event(row, json, "gpu_memcpy", name)) return false;
         json.key("args").beginObject();
         place(row, json, 3);
         if (row.has(7)) json.field("bytes", row.number(7));
         json.endObject();
         return true;
       });
  part(kSets, with(kSets, {column(kSets, "bytes")}), [](const Rows& row, JsonWriter& json) {
    if (!event(row, json, "gpu_memset", "Memset (Device)")) return false;
    json.key("args").beginObject();
    place(row, json, 3);
    if (row.has(7)) json.field("bytes", row.number(7));
    json.endObject();
    return true;
  });
  // A graph that was recorded as a whole.
  part(kGraphs, with(kGraphs, {column(kGraphs, "graphId")}), [](const Rows& row, JsonWriter& json) {
    if (!event(row, json, "kernel", "CUDA graph " + std::string(row.text(7)))) return false;
    json.key("args").beginObject();
    place(row, json, 3);
    if (row.has(7)) json.field("graph id", row.number(7));
    json.endObject();
    return true;
  });
  part(kWaits, with(kWaits, {column(kWaits, "syncType")}), [](const Rows& row, JsonWriter& json) {
    static constexpr const char* kNames[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    const int64_t type = row.number(7);
    if (!event(row, json, "cuda_sync", kNames[type > 0 && type <= 4 ? type : 0])) return false;
    json.key("args").beginObject();
    place(row, json, 3);
    json.endObject();
    return true;
  });
}

/// "cudaLaunchKernel_v7000" without its version.
std::string_view withoutVersion(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (at == name.npos || at + 2 == name.size()) return name;
  return name.find_first_not_of("0123456789", at + 2) == name.npos ? name.substr(0, at) : name;
}

void Nsys::calls() {
  part(kCalls, {tidOf(column(kCalls, "globalTid")), name(kCalls, {"nameId"}), column(kCalls, "correlationId")},
       [](const Rows& row, JsonWriter& json) {
         const std::string_view name = withoutVersion(row.text(4));
         const bool driver = name.starts_with("cu") && !name.starts_with("cuda");
         if (!event(row, json, driver ? "cuda_driver" : "cuda_runtime", name)) return false;
         if (row.has(3)) json.field("tid", row.number(3));
         json.key("args").beginObject();
         if (row.has(5)) json.field("correlation", row.number(5));
         json.endObject();
         return true;
       });
}

void Nsys::ranges() {
  constexpr int64_t kMark = 34;
  const std::string named = name(kRanges, {"textId"});
  part(
      kRanges,
      {tidOf(column(kRanges, "globalTid")), "coalesce(" + column(kRanges, "text") + ", " + named + ")",
       column(kRanges, "eventType")},
      [](const Rows& row, JsonWriter& json) {
        if (row.number(5) == kMark || !row.has(1)) {  // a mark, or a range that was open at the end
          json.field("ph", row.number(5) == kMark ? "i" : "B").field("name", row.text(4)).field("pid", row.number(2));
          if (row.number(5) != kMark) json.field("cat", "user_annotation");
          json.field("tid", row.number(3));
          return writeTimes(json, row.number(0), row.number(0));
        }
        if (!event(row, json, "user_annotation", row.text(4))) return false;
        json.field("tid", row.number(3));
        return true;
      },
      database_.has(std::string(kRanges), "eventType") ? " WHERE eventType IN (34, 59, 60)" : "");
}

/// Samples of the GPU's own counters.
void Nsys::metrics() {
  if (!database_.has(std::string(kMetrics), "timestamp") || !database_.has("TARGET_INFO_GPU_METRICS", "metricName"))
    return;
  read_.emplace(kMetrics);
  trace_.parts.push_back(
      {std::string(kMetrics),
       "SELECT m.timestamp, m.typeId & 255, i.metricName, m.value FROM GPU_METRICS m JOIN (SELECT DISTINCT typeId, "
       "metricId, metricName FROM TARGET_INFO_GPU_METRICS) i ON i.typeId = m.typeId AND i.metricId = m.metricId",
       [](const Rows& row, JsonWriter& json) {
         json.field("ph", "C").field("name", "GPU " + std::string(row.text(1)) + ": " + std::string(row.text(2)));
         if (!writeTimes(json, row.number(0), row.number(0))) return false;
         json.key("args").beginObject().field("value", row.real(3)).endObject();
         return true;
       }});
}

/// Names of processes and threads. Of several processes with device work each is a rank.
void Nsys::processes() {
  std::vector<int64_t> pids;
  std::string all;
  for (const std::string_view table : {kKernels, kGraphs})
    if (database_.has(std::string(table), "globalPid"))
      all += std::string(all.empty() ? "" : " UNION ") + "SELECT DISTINCT " + pid(table) + " AS pid FROM " +
             identifier(table);
  if (!all.empty())
    if (Result<Rows> rows = database_.ask(all + " ORDER BY 1"); rows.ok())
      while (rows->next()) pids.push_back(rows->number(0));
  const bool several = pids.size() > 1;
  const bool told = several && database_.has("MPI_RANKS", "rank") && database_.has("MPI_RANKS", "globalTid");
  if (several) {
    if (!told)
      notes_.warnings.push_back("the ranks of the " + std::to_string(pids.size()) + " processes in " +
                                database_.path() +
                                " are numbered in the order of their process ids: the report does not tell them");
    for (size_t i = 0; i < pids.size(); ++i) {
      const std::string number = std::to_string(pids[i]);
      std::string rank = std::to_string(i);
      if (told) rank = "(SELECT min(rank) FROM MPI_RANKS WHERE (" + pidOf("globalTid") + ") = " + number + ")";
      std::string process = "NULL";
      if (database_.has("PROCESSES", "name"))
        process = "(SELECT min(name) FROM PROCESSES WHERE (" + pidOf("globalPid") + ") = " + number + ")";
      trace_.parts.push_back(
          {"PROCESSES", "SELECT " + rank + ", " + number + ", " + process, [](const Rows& row, JsonWriter& json) {
             json.field("ph", "M").field("name", "tracesmith_process").field("pid", row.number(1));
             json.key("args").beginObject().field("pid", row.number(1));
             if (row.has(0)) json.field("rank", row.number(0));
             if (row.has(2)) json.field("name", row.text(2));
             json.endObject();
             return true;
           }});
    }
  } else if (database_.has("PROCESSES", "name") && pids.size() == 1) {
    trace_.parts.push_back({"PROCESSES",
                            "SELECT " + pidOf("globalPid") + ", min(name) FROM PROCESSES WHERE (" + pidOf("globalPid") +
                                ") = " + std::to_string(pids[0]) + " AND name IS NOT NULL GROUP BY 1",
                            [](const Rows& row, JsonWriter& json) {
                              json.field("ph", "M").field("name", "process_name").field("pid", row.number(0));
                              json.key("args").beginObject().field("name", row.text(1)).endObject();
                              return true;
                            }});
  }
  if (!database_.has("ThreadNames", "nameId") || !database_.has("StringIds")) return;
  trace_.parts.push_back({"ThreadNames",
                          "SELECT " + pidOf("globalTid") + ", " + tidOf("globalTid") +
                              ", (SELECT value FROM StringIds WHERE id = nameId) FROM ThreadNames",
                          [](const Rows& row, JsonWriter& json) {
                            json.field("ph", "M").field("name", "thread_name").field("pid", row.number(0));
                            json.field("tid", row.number(1));
                            json.key("args").beginObject().field("name", row.text(2)).endObject();
                            return true;
                          }});
}

/// Tables of events that nobody reads here.
void Nsys::leaveOutOthers() {
  for (const auto& [table, columns] : database_.tables())
    if (!read_.contains(table) && columns.contains("start") && columns.contains("end"))
      leaveOut(database_, table, notes_);
  if (!database_.has("DIAGNOSTIC_EVENT", "text")) return;
  Result<Rows> said = database_.ask("SELECT text FROM DIAGNOSTIC_EVENT");
  while (said && said->next())
    if (said->text(0).find("dropped") != std::string_view::npos ||
        said->text(0).find(" lost") != std::string_view::npos)
      notes_.losses.add("lost by nsys", 1, said->text(0));
}

void Nsys::header(JsonWriter& json) const {
  if (database_.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"))
    if (const auto epoch = database_.number("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"); epoch)
      json.field("baseTimeNanoseconds", *epoch);
  auto env = [&](const char* key, const char* name) {
    if (!database_.has("TARGET_INFO_SYSTEM_ENV", "value")) return;
    Result<Rows> rows =
        database_.ask("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = '" + std::string(name) + "' LIMIT 1");
    if (rows && rows->next() && rows->has(0)) json.field(key, rows->text(0));
  };
  env("hostname", "Hostname");
  json.key("deviceProperties").beginArray();
  const std::string gpus = "TARGET_INFO_GPU";
  if (database_.has(gpus, "name")) {
    const bool by_cuda = database_.has(gpus, "cuDevice");
    Result<Rows> rows = database_.ask(
        "SELECT " + database_.column(gpus, by_cuda ? "cuDevice" : "id") + ", name, " +
        database_.column(gpus, "totalMemory") + ", " + database_.column(gpus, "computeMajor") + ", " +
        database_.column(gpus, "computeMinor") + ", " + database_.column(gpus, "smCount") + " FROM " + gpus);
    if (rows)
      while (rows->next()) {
        json.beginObject();
        static constexpr const char* kKeys[] = {"id",           "name",         "totalGlobalMem",
                                                "computeMajor", "computeMinor", "numSms"};
        for (int i = 0; i < 6; ++i)
          if (i == 1)
            json.field(kKeys[i], rows->text(i));
          else if (rows->has(i))
            json.field(kKeys[i], rows->number(i));
        json.endObject();
      }
  }
  json.endArray();
}

DatabaseTrace Nsys::trace() {
  processes();
  calls();
  ranges();
  work();
  metrics();
  leaveOutOthers();
  trace_.header = [copy = *this](JsonWriter& json) { copy.header(json); };
  return std::move(trace_);
}

}  // namespace

DatabaseTrace nsysTrace(const Database& database, DatabaseNotes& notes) { return Nsys(database, notes).trace(); }

}  // namespace tracesmith::trace
