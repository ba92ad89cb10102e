// Tables of rocprofv3 (rocpd). Each name ends in the number of the recording, "rocpd_region_00005678_…"; merged
// databases have several. Times are those of the machine's clock since it started.
#include <algorithm>

#include "trace/import/database_source.hpp"

namespace tracesmith::trace {
namespace {

constexpr std::string_view kKernels = "rocpd_kernel_dispatch";

/// One recording in the database.
class Rocpd {
 public:
  Rocpd(const Database& database, std::string suffix, DatabaseTrace& trace)
      : database_(database), suffix_(std::move(suffix)), trace_(trace) {}
  void add() {
    threads();
    regions();
    kernels();
    copies();
  }

 private:
  std::string table(const char* name) const { return identifier(name + suffix_); }
  bool has(const char* name) const { return database_.has(name + suffix_); }
  std::string pid(const char* of) const {
    return "(SELECT p.pid FROM " + table("rocpd_info_process") + " p WHERE p.id = " + of + ".pid)";
  }
  std::string tid(const char* of) const {
    return "(SELECT t.tid FROM " + table("rocpd_info_thread") + " t WHERE t.id = " + of + ".tid)";
  }
  /// What the call and the work that it caused have in common.
  std::string correlation(const char* of) const {
    return "(SELECT e.stack_id FROM " + table("rocpd_event") + " e WHERE e.id = " + of + ".event_id)";
  }
  std::string agent(const std::string& id) const {
    return "(SELECT coalesce(a.logical_index, a.type_index) FROM " + table("rocpd_info_agent") +
           " a WHERE a.id = " + id + " AND a.type = 'GPU')";
  }
  std::string text(const std::string& id) const {
    return "(SELECT s.string FROM " + table("rocpd_string") + " s WHERE s.id = " + id + ")";
  }
  void part(const char* name, const std::string& sql, std::function<bool(const Rows&, JsonWriter&)> write) {
    trace_.parts.push_back({name, sql, std::move(write)});
  }
  void threads();
  void regions();
  void kernels();
  void copies();

  const Database& database_;
  std::string suffix_;
  DatabaseTrace& trace_;
};

bool event(const Rows& row, JsonWriter& json, const char* category, std::string_view name) {
  json.field("ph", "X").field("name", name.empty() ? "unknown" : name);
  if (*category) json.field("cat", category);
  if (row.has(2)) json.field("pid", row.number(2));
  if (row.has(3)) json.field("tid", row.number(3));
  return row.has(0) && row.has(1) && writeTimes(json, row.number(0), row.number(1));
}

void Rocpd::threads() {
  if (!has("rocpd_info_thread") || !has("rocpd_info_process")) return;
  part("rocpd_info_process", "SELECT pid, command FROM " + table("rocpd_info_process") + " WHERE command IS NOT NULL",
       [](const Rows& row, JsonWriter& json) {
         json.field("ph", "M").field("name", "process_name").field("pid", row.number(0));
         json.key("args").beginObject().field("name", row.text(1)).endObject();
         return true;
       });
  part("rocpd_info_thread",
       "SELECT " + pid("n") + ", n.tid, n.name FROM " + table("rocpd_info_thread") + " n WHERE n.name IS NOT NULL",
       [](const Rows& row, JsonWriter& json) {
         json.field("ph", "M").field("name", "thread_name").field("pid", row.number(0)).field("tid", row.number(1));
         json.key("args").beginObject().field("name", row.text(2)).endObject();
         return true;
       });
}

/// Calls of HIP and HSA, and ranges of the program.
void Rocpd::regions() {
  if (!has("rocpd_region")) return;
  part("rocpd_region",
       "SELECT r.start, r.\"end\", " + pid("r") + ", " + tid("r") + ", " + text("r.name_id") + ", " + correlation("r") +
           ", (SELECT c.string FROM " + table("rocpd_event") + " e JOIN " + table("rocpd_string") +
           " c ON c.id = e.category_id WHERE e.id = r.event_id), CASE WHEN json_valid(r.extdata) THEN "
           "json_extract(r.extdata, '$.message') END FROM " +
           table("rocpd_region") + " r",
       [](const Rows& row, JsonWriter& json) {
         const std::string_view category = row.text(6);
         const bool marked = category.find("MARKER") != category.npos;
         const bool driver = category.find("HSA") != category.npos;
         const char* ours = marked ? "user_annotation" : driver ? "hip_driver" : "hip_runtime";
         if (!event(row, json, ours, marked && row.has(7) ? row.text(7) : row.text(4))) return false;
         json.key("args").beginObject();
         if (!marked && row.has(5)) json.field("correlation", row.number(5));
         json.endObject();
         return true;
       });
}

void Rocpd::kernels() {
  if (!has(kKernels.data())) return;
  part(kKernels.data(),
       "SELECT k.start, k.\"end\", " + pid("k") + ", " + tid("k") +
           ", (SELECT coalesce(s.display_name, s.kernel_name) FROM " + table("rocpd_info_kernel_symbol") +
           " s WHERE s.id = k.kernel_id), " + correlation("k") + ", " + agent("k.agent_id") +
           ", k.queue_id, k.stream_id, k.grid_size_x, k.grid_size_y, k.grid_size_z, k.workgroup_size_x, "
           "k.workgroup_size_y, k.workgroup_size_z, k.group_segment_size FROM " +
           table(kKernels.data()) + " k",
       [](const Rows& row, JsonWriter& json) {
         if (!event(row, json, "kernel", row.text(4))) return false;
         json.key("args").beginObject();
         if (row.has(6)) json.field("device", row.number(6));
         json.field("stream", row.number(row.has(8) ? 8 : 7));
         if (row.has(5)) json.field("correlation", row.number(5));
         // HIP counts work items where Kineto and CUDA count groups of them.
         json.key("grid").beginArray();
         for (int i = 0; i < 3; ++i) {
           const int64_t group = std::max<int64_t>(1, row.number(12 + i));
           json.value((row.number(9 + i) + group - 1) / group);
         }
         json.endArray().key("block").beginArray();
         for (int i = 0; i < 3; ++i) json.value(row.number(12 + i));
         json.endArray();
         if (row.has(15)) json.field("static shared memory", row.number(15));
         json.endObject();
         return true;
       });
}

void Rocpd::copies() {
  if (!has("rocpd_memory_copy")) return;
  part("rocpd_memory_copy",
       "SELECT c.start, c.\"end\", " + pid("c") + ", " + tid("c") + ", " + agent("c.src_agent_id") + ", " +
           agent("c.dst_agent_id") + ", c.size, c.stream_id, c.queue_id, " + correlation("c") + " FROM " +
           table("rocpd_memory_copy") + " c",
       [](const Rows& row, JsonWriter& json) {
         const bool from = row.has(4), to = row.has(5);  // a GPU
         if (!event(row, json, "gpu_memcpy", copyName(from ? "D" : "H", to ? "D" : "H"))) return false;
         json.key("args").beginObject();
         if (from || to) json.field("device", row.number(from ? 4 : 5));
         if (row.has(7) || row.has(8)) json.field("stream", row.number(row.has(7) ? 7 : 8));
         if (row.has(9)) json.field("correlation", row.number(9));
         json.field("bytes", row.number(6));
         json.endObject();
         return true;
       });
}

}  // namespace

DatabaseTrace rocpdTrace(const Database& database, DatabaseNotes& notes) {
  DatabaseTrace trace;
  std::set<std::string> suffixes;
  for (const auto& [table, columns] : database.tables()) {
    constexpr std::string_view kProcesses = "rocpd_info_process";
    if (table.starts_with(kProcesses)) suffixes.insert(table.substr(kProcesses.size()));
  }
  for (const std::string& suffix : suffixes) Rocpd(database, suffix, trace).add();
  for (const auto& [table, columns] : database.tables())
    for (const char* events : {"rocpd_pmc_event", "rocpd_sample", "rocpd_memory_allocate"})
      if (table.starts_with(events)) leaveOut(database, table, notes);
  std::string gpus, hosts;
  for (const std::string& suffix : suffixes) {
    if (database.has("rocpd_info_agent" + suffix))
      gpus += std::string(gpus.empty() ? "" : " UNION ") +
              "SELECT coalesce(logical_index, type_index), coalesce(product_name, model_name, name) FROM " +
              identifier("rocpd_info_agent" + suffix) + " WHERE type = 'GPU'";
    if (database.has("rocpd_info_node" + suffix))
      hosts += std::string(hosts.empty() ? "" : " UNION ") + "SELECT hostname FROM " +
               identifier("rocpd_info_node" + suffix);
  }
  trace.header = [&database, gpus, hosts](JsonWriter& json) {
    std::vector<std::string> nodes;
    if (!hosts.empty())
      if (Result<Rows> rows = database.ask(hosts); rows.ok())
        while (rows->next()) nodes.emplace_back(rows->text(0));
    if (nodes.size() == 1 && !nodes[0].empty()) json.field("hostname", nodes[0]);
    json.key("deviceProperties").beginArray();
    if (!gpus.empty())
      if (Result<Rows> rows = database.ask(gpus); rows.ok())
        while (rows->next()) {
          json.beginObject();
          if (rows->has(0)) json.field("id", rows->number(0));
          json.field("name", rows->text(1)).endObject();
        }
    json.endArray();
  };
  return trace;
}

}  // namespace tracesmith::trace
