#include "trace/import/kineto_metadata.hpp"

#include <simdjson.h>

#include "base/text.hpp"
#include "trace/category.hpp"
#include "trace/import/json_cursor.hpp"
#include "trace/layout.hpp"

namespace tracesmith::trace {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDeviceBytes = 16u << 20;
constexpr int64_t kMaxEpoch = 4'000'000'000'000'000'000;  // in the year 2096

std::string stringContent(std::string_view value) {
  std::string out;
  appendUnescaped(out, value.substr(1, value.size() - 2));
  return out;
}

bool isString(std::string_view value) { return value.size() >= 2 && value.front() == '"'; }

/// An integer, also where it is written as a string.
int64_t intOf(dom::element e) {
  int64_t v;
  if (e.get(v) == simdjson::SUCCESS) return v;
  std::string_view s;
  return e.get(s) == simdjson::SUCCESS && parseInt(s, v) ? v : kNull;
}

int64_t int32Of(dom::element e) {
  int64_t v = intOf(e);
  return v == static_cast<int32_t>(v) ? v : kNull;
}

/// Text of a string, JSON of anything else.
std::string textOf(dom::element e) {
  std::string_view s;
  return e.get(s) == simdjson::SUCCESS ? std::string(s) : std::string(simdjson::minify(e));
}

bool isHostKey(std::string_view key) {
  std::string k;
  for (char c : key)
    if (c != '_' && c != '-' && c != ' ') k += static_cast<char>(c | 32);
  return k == "hostname" || k == "host" || k == "nodename";
}

const char* vendorOf(std::string_view name) {
  if (name.find("NVIDIA") != name.npos || name.find("Tesla") != name.npos || name.find("GeForce") != name.npos)
    return "NVIDIA";
  if (name.find("AMD") != name.npos || name.find("Radeon") != name.npos || name.find("Instinct") != name.npos)
    return "AMD";
  return name.find("Intel") != name.npos ? "Intel" : nullptr;
}

void addGroup(dom::object group, std::string_view key, Writer& writer, RowSink& sink) {
  GroupRow row;
  if (!key.empty()) row.comm = writer.string(key);
  for (auto [name, value] : group) {
    if (name == "pg_name") row.comm = writer.string(textOf(value));
    if (name == "pg_desc") row.description = writer.string(textOf(value));
    if (name == "backend_config" || name == "backend") row.backend = writer.string(textOf(value));
    if (name == "pg_size" || name == "group_size") row.size = int32Of(value);
    if (name == "ranks" && value.is_array()) row.ranks = sink.text(simdjson::minify(value));
  }
  sink.add(row);
}

}  // namespace

void KinetoMetadata::row(std::string_view key, std::string_view value) {
  MetadataRow row;
  row.key = writer_.string(key);
  row.value = sink_.text(value);
  sink_.add(row);
}

void KinetoMetadata::member(std::string_view raw_key, std::string_view value) {
  std::string key, content;
  appendUnescaped(key, raw_key);
  if (isString(value)) content = stringContent(value);
  // Some writers put JSON into a string.
  const std::string_view json = isString(value) ? std::string_view(content) : value;
  if (isHostKey(key) && isString(value)) host_ = content;
  if (key == "tracesmithBaseNanoseconds" && parseInt(value, base_ns_)) return;
  if (int64_t ns; key == kChromeBaseKey && parseInt(value, ns) && ns >= 0 && ns <= kMaxEpoch) {
    epoch_ns_ = ns;
    row(key, value);
    return;
  }
  if (key == "deviceProperties") {
    if (deviceProperties(json)) return;
    losses_.add("unreadable metadata", 1, "deviceProperties is not a list of devices");
  }
  if (key == "distributedInfo" && !distributedInfo(json))
    losses_.add("unreadable metadata", 1, "distributedInfo is not an object");
  std::string compact;
  appendCompact(compact, json);
  row(key, isString(value) ? compact : withoutNonFinite(compact));
}

bool KinetoMetadata::distributedInfo(std::string_view json) {
  dom::parser parser;
  dom::element root;
  dom::object info;
  simdjson::padded_string padded(json);
  if (parser.parse(padded).get(root) || root.get(info)) return false;
  for (auto [key, value] : info) {
    if (key == "rank") rank_ = int32Of(value);
    if (key == "world_size") world_size_ = int32Of(value);
    if (isHostKey(key) && value.is_string()) host_ = textOf(value);
    if (key != "pg_config") continue;
    dom::array list;
    dom::object named;
    if (value.get(list) == simdjson::SUCCESS) {
      for (dom::element e : list)
        if (dom::object group; e.get(group) == simdjson::SUCCESS) addGroup(group, {}, writer_, sink_);
    } else if (value.get(named) == simdjson::SUCCESS) {
      for (auto [name, e] : named)
        if (dom::object group; e.get(group) == simdjson::SUCCESS) addGroup(group, name, writer_, sink_);
    }
  }
  if (rank_ < 0) rank_ = kNull;
  return true;
}

bool KinetoMetadata::deviceProperties(std::string_view json) {
  dom::parser parser;
  dom::element root;
  dom::array list;
  simdjson::padded_string padded(json);
  if (parser.parse(padded).get(root) || root.get(list)) return false;
  for (dom::element e : list)
    if (!e.is_object()) return false;
  for (dom::element e : list) {
    Device device;
    DeviceRow& row = device.row;
    JsonWriter rest(device.args);
    rest.beginObject();
    for (auto [key, value] : dom::object(e)) {
      int64_t* slot = nullptr;
      if (key == "id") slot = &row.device;
      if (key == "totalGlobalMem") slot = &row.memory;
      if (key == "computeMajor") slot = &row.cc_major;
      if (key == "computeMinor") slot = &row.cc_minor;
      if (key == "numSms") slot = &row.sms;
      if (key == "warpSize") slot = &row.warp;
      if (key == "name") {
        std::string name = textOf(value);
        row.name = writer_.string(name);
        if (const char* vendor = vendorOf(name)) row.vendor = writer_.string(vendor);
      } else if (key == "vendor" && value.is_string()) {
        row.vendor = writer_.string(textOf(value));
      } else if (key == "node" && value.is_string()) {
        row.node = writer_.string(textOf(value));
      } else if (slot && (slot == &row.memory ? intOf(value) : int32Of(value)) != kNull) {
        *slot = intOf(value);
      } else {
        rest.key(key).raw(simdjson::minify(value));
      }
    }
    rest.endObject();
    std::string text = simdjson::minify(e);
    device.hash = hash64(text.data(), text.size());
    device_bytes_ += sizeof device + device.args.size();
    if (device_bytes_ <= kMaxDeviceBytes)
      devices_.push_back(std::move(device));
    else
      losses_.add("too many devices", 1, "devices beyond the limit were not kept");
  }
  return true;
}

void KinetoMetadata::writeDevices(const std::string& node, std::set<uint64_t>& known) {
  for (Device& device : devices_) {
    if (known.size() < 1'000'000 && !known.insert(device.hash ^ hash64(node.data(), node.size())).second) continue;
    if (device.args != "{}") device.row.args = sink_.text(device.args);
    sink_.add(device.row);
  }
}

}  // namespace tracesmith::trace
