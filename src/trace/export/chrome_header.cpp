// What stands beside the events of a Chrome trace: devices, the job, and what else a source said.
#include <simdjson.h>

#include <set>

#include "trace/category.hpp"
#include "trace/export/chrome.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {
namespace {

/// "name":value for every column in `columns` that has one.
void appendColumns(JsonWriter& json, const Row& row, std::initializer_list<std::pair<int, const char*>> columns) {
  for (auto [column, key] : columns)
    if (int64_t v = row.slot(column); v != kNull) json.field(key, v);
}

void appendTexts(JsonWriter& json, const Row& row, std::initializer_list<std::pair<int, const char*>> columns) {
  for (auto [column, key] : columns)
    if (std::string_view v = row.text(column); v.data()) json.field(key, v);
}

Status appendDevices(JsonWriter& json, const Reader& reader) {
  std::set<std::string_view> nodes;
  TS_TRY(forEachRow(reader, tableOf<DeviceRow>(), {}, {devices::node}, [&](const Row& row) {
    nodes.insert(row.text(devices::node));
    return Status();
  }));
  if (nodes.empty()) return {};
  ChromeArgs args;
  const bool simulated = isSimulated(reader);  // whoever reads it back must know
  json.key("deviceProperties").beginArray();
  TS_TRY(forEachRow(reader, tableOf<DeviceRow>(), {}, {}, [&](const Row& row) {
    json.beginObject();
    appendColumns(json, row, {{devices::device, "id"}});
    appendTexts(json, row, {{devices::name, "name"}, {devices::uuid, "uuid"}, {devices::pci, "pci"}});
    if (nodes.size() > 1) appendTexts(json, row, {{devices::node, "node"}});
    if (simulated) json.field("vendor", kSimulated);
    appendColumns(json, row,
                  {{devices::memory, "totalGlobalMem"},
                   {devices::cc_major, "computeMajor"},
                   {devices::cc_minor, "computeMinor"},
                   {devices::warp, "warpSize"},
                   {devices::sms, "numSms"},
                   {devices::clock_khz, "clockRate"},
                   {devices::memory_clock_khz, "memoryClockRate"},
                   {devices::bus_bits, "memoryBusWidth"}});
    if (args.parse(row.text(devices::args)) && !args.members().empty()) json.raw(args.members());
    json.endObject();
    return Status();
  }));
  json.endArray();
  return {};
}

/// Made from the tables, for traces that were not imported from Kineto.
Status appendDistributedInfo(JsonWriter& json, const Reader& reader, int64_t rank) {
  Selection one;
  if (rank != kNull) one.ranks = {rank};
  std::string info, configs;
  JsonWriter members(info), groups(configs);
  bool known = false;
  int64_t count = 0;
  members.beginObject();
  TS_TRY(forEachRow(reader, tableOf<ProcessRow>(), one, {}, [&](const Row& row) {
    if (known || row.slot(processes::world_size) == kNull) return Status();
    known = true;
    if (rank != kNull) appendColumns(members, row, {{processes::rank, "rank"}});
    appendColumns(members, row, {{processes::world_size, "world_size"}});
    return Status();
  }));
  groups.beginArray();
  if (rank != kNull)
    TS_TRY(forEachRow(reader, tableOf<GroupRow>(), one, {}, [&](const Row& row) {
      ++count;
      groups.beginObject();
      appendTexts(groups, row,
                  {{groups::comm, "pg_name"}, {groups::description, "pg_desc"}, {groups::backend, "backend_config"}});
      appendColumns(groups, row, {{groups::size, "pg_size"}});
      simdjson::dom::parser parser;
      simdjson::dom::array ranks;
      std::string text(row.text(groups::ranks));
      if (parser.parse(text).get(ranks) == simdjson::SUCCESS) groups.key("ranks").raw(text);
      groups.endObject();
      return Status();
    }));
  groups.endArray();
  if (count > 0) members.field("pg_count", count).key("pg_config").raw(configs);
  members.endObject();
  if (known) json.key("distributedInfo").raw(info);
  return {};
}

/// What a source said about the trace, back where it said it. What was an event of its own is written as one again
/// later.
Status appendMetadata(JsonWriter& json, const Reader& reader, int64_t rank, std::set<std::string>& written) {
  simdjson::dom::parser parser;
  return forEachRow(reader, tableOf<MetadataRow>(), {}, {}, [&](const Row& row) {
    int64_t of = row.slot(metadata::rank);
    std::string key(row.text(metadata::key)), value(row.text(metadata::value));
    if ((of != kNull && of != rank) || isChromeMetadataEvent(key, value) || !written.insert(key).second)
      return Status();
    simdjson::dom::element element;
    bool is_json = parser.parse(value).get(element) == simdjson::SUCCESS && !element.is_string();
    json.key(key);
    is_json ? json.raw(value) : json.value(value);
    return Status();
  });
}

}  // namespace

bool isChromeMetadataEvent(std::string_view key, std::string_view value) {
  ChromeArgs args;
  return key == "device_process" ||
         (value.starts_with('{') && args.parse(value) && args.has("args") && (args.has("pid") || args.has("tid")));
}

Status appendChromeHeader(std::string& out, const Reader& reader, int64_t rank, int64_t base_ns) {
  // The base of a file that was imported is not that of the times written here.
  std::set<std::string> written = {"traceEvents", "deviceProperties", std::string(kChromeBaseKey)};
  JsonWriter json(out);
  json.beginObject();
  TS_TRY(appendMetadata(json, reader, rank, written));
  if (!written.contains("schemaVersion")) json.field("schemaVersion", 1);
  if (!written.contains("displayTimeUnit")) json.field("displayTimeUnit", "ms");
  if (base_ns != 0) json.field(kChromeBaseKey, base_ns);
  TS_TRY(appendDevices(json, reader));
  if (!written.contains("distributedInfo")) TS_TRY(appendDistributedInfo(json, reader, rank));
  json.key("traceEvents").beginArray();
  return {};
}

}  // namespace tracesmith::trace
