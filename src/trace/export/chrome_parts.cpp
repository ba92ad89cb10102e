#include <simdjson.h>

#include <set>

#include "base/text.hpp"
#include "trace/export/chrome.hpp"

namespace tracesmith::trace {

const char* chromeCategory(EventType type) {
  static constexpr const char* kCategories[kEventTypes] = {"kernel",
                                                           "gpu_memcpy",
                                                           "gpu_memset",
                                                           "cuda_runtime",
                                                           "cuda_driver",
                                                           "cuda_sync",
                                                           "cuda_graph",
                                                           "overhead",
                                                           "cpu_op",
                                                           "user_annotation",
                                                           "gpu_user_annotation",
                                                           "python_function",
                                                           "cpu_instant_event",
                                                           "other"};
  auto i = static_cast<unsigned>(type);
  return kCategories[i < kEventTypes ? i : kEventTypes - 1];
}

int64_t chromeBaseNs(const Reader& reader) {
  constexpr int64_t kExact = 9'000'000'000'000'000;  // about 2^53: doubles of µs below it tell nanoseconds apart
  constexpr int64_t kStep = 1'000'000'000'000'000;
  int64_t start = INT64_MAX, low, high;
  for (const Block* b : reader.blocks(tableOf<EventRow>()))
    if (b->zone(events::ts, low, high)) start = std::min(start, low);
  return start == INT64_MAX || start < kExact ? 0 : start / kStep * kStep;
}

void appendMicroseconds(std::string& out, int64_t ns) {
  auto magnitude = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  if (ns < 0) out += '-';
  out += std::to_string(magnitude / 1000);
  auto rest = static_cast<unsigned>(magnitude % 1000);
  out += {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
          static_cast<char>('0' + rest % 10)};
}

struct ChromeArgs::Impl {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  std::string text;
};

ChromeArgs::ChromeArgs() : impl_(std::make_unique<Impl>()) {}
ChromeArgs::~ChromeArgs() = default;

bool ChromeArgs::parse(std::string_view json) {
  members_ = {};
  impl_->object = {};
  if (json.empty()) return false;
  impl_->text.assign(json);
  impl_->text.append(simdjson::SIMDJSON_PADDING, ' ');
  if (impl_->parser.parse(impl_->text.data(), json.size(), false).get(impl_->object) != simdjson::SUCCESS) return false;
  size_t from = json.find('{') + 1, to = json.rfind('}');
  from = json.find_first_not_of(" \t\r\n", from);
  if (from < to) members_ = json.substr(from, to - from);
  return true;
}

bool ChromeArgs::has(std::string_view key) const {
  return !members_.empty() && impl_->object.at_key(key).error() == simdjson::SUCCESS;
}

int64_t ChromePids::number(const Key& key, int64_t own, bool& first) {
  auto [it, added] = numbers_.try_emplace(key, own);
  first = added;
  if (added && several_) it->second = static_cast<int64_t>(numbers_.size());
  return it->second;
}

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
  json.key("deviceProperties").beginArray();
  TS_TRY(forEachRow(reader, tableOf<DeviceRow>(), {}, {}, [&](const Row& row) {
    json.beginObject();
    appendColumns(json, row, {{devices::device, "id"}});
    appendTexts(json, row,
                {{devices::name, "name"}, {devices::vendor, "vendor"}, {devices::uuid, "uuid"}, {devices::pci, "pci"}});
    if (nodes.size() > 1) appendTexts(json, row, {{devices::node, "node"}});
    appendColumns(json, row,
                  {{devices::memory, "totalGlobalMem"},
                   {devices::cc_major, "computeMajor"},
                   {devices::cc_minor, "computeMinor"},
                   {devices::sms, "numSms"},
                   {devices::warp, "warpSize"},
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

Status appendDistributedInfo(JsonWriter& json, const Reader& reader, int64_t rank) {
  Selection one;
  if (rank != kNull) one.ranks = {rank};
  ChromeArgs args;
  std::string info, groups;
  JsonWriter members(info), configs(groups);
  bool known = false;
  int64_t count = 0;
  members.beginObject();
  TS_TRY(forEachRow(reader, tableOf<ProcessRow>(), one, {}, [&](const Row& row) {
    if (known || row.slot(processes::world_size) == kNull) return Status();
    known = true;
    if (rank != kNull) appendColumns(members, row, {{processes::rank, "rank"}});
    appendColumns(members, row, {{processes::world_size, "world_size"}});
    if (rank != kNull && args.parse(row.text(processes::args)) && !args.members().empty()) members.raw(args.members());
    return Status();
  }));
  configs.beginArray();
  if (rank != kNull)
    TS_TRY(forEachRow(reader, tableOf<GroupRow>(), one, {}, [&](const Row& row) {
      ++count;
      configs.beginObject();
      appendTexts(configs, row,
                  {{groups::comm, "pg_name"}, {groups::description, "pg_desc"}, {groups::backend, "backend_config"}});
      appendColumns(configs, row, {{groups::size, "pg_size"}});
      simdjson::dom::parser parser;
      simdjson::dom::array ranks;
      std::string text(row.text(groups::ranks));
      if (parser.parse(text).get(ranks) == simdjson::SUCCESS) configs.key("ranks").raw(text);
      configs.endObject();
      return Status();
    }));
  configs.endArray();
  if (count > 0 && !args.has("pg_count")) members.field("pg_count", count);
  if (count > 0 && !args.has("pg_config")) members.key("pg_config").raw(groups);
  members.endObject();
  if (known) json.key("distributedInfo").raw(info);
  return {};
}

/// What a source said about the trace, back where it said it: beside traceEvents.
Status appendMetadata(JsonWriter& json, const Reader& reader, int64_t rank) {
  std::set<std::string, std::less<>> written = {"schemaVersion", "displayTimeUnit",     "deviceProperties",
                                                "traceEvents",   "baseTimeNanoseconds", "distributedInfo"};
  simdjson::dom::parser parser;
  return forEachRow(reader, tableOf<MetadataRow>(), {}, {}, [&](const Row& row) {
    int64_t of = row.slot(metadata::rank);
    std::string key(row.text(metadata::key)), value(row.text(metadata::value));
    if ((of != kNull && of != rank) || !written.insert(key).second) return Status();
    simdjson::dom::element element;
    bool is_json = parser.parse(value).get(element) == simdjson::SUCCESS && !element.is_string();
    json.key(key);
    is_json ? json.raw(value) : json.value(value);
    return Status();
  });
}

}  // namespace

Status appendChromeHeader(std::string& out, const Reader& reader, int64_t rank, int64_t base_ns) {
  JsonWriter json(out);
  json.beginObject().field("schemaVersion", 1).field("displayTimeUnit", "ns");
  if (base_ns != 0) json.field("baseTimeNanoseconds", base_ns);
  TS_TRY(appendDevices(json, reader));
  TS_TRY(appendDistributedInfo(json, reader, rank));
  TS_TRY(appendMetadata(json, reader, rank));
  json.key("traceEvents").beginArray();
  return {};
}

}  // namespace tracesmith::trace
