// GPUs and how they are connected.
#include <map>

#include "analysis/each_row.hpp"
#include "base/text.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"

namespace tracesmith::server {
namespace {

struct Device {
  std::string name, vendor;
  int64_t memory = trace::kNull;
};
using Devices = std::map<std::string, std::map<int64_t, Device>>;  // by node, by index

Status readDevices(const Timeline& t, Devices& all) {
  auto textOf = [&](int64_t slot) {
    return slot == trace::kNull ? std::string() : std::string(t.names().text(static_cast<uint32_t>(slot)));
  };
  using namespace trace::devices;
  return analysis::eachRow<trace::DeviceRow>(
      t.reader(), t.names(), {node, device, name, vendor, memory}, [&](const trace::DeviceRow& r, const auto&) {
        if (r.device != trace::kNull) all[textOf(r.node)][r.device] = {textOf(r.name), textOf(r.vendor), r.memory};
      });
}

bool simulated(const std::string& name) { return name.starts_with("Simulated"); }

}  // namespace

Answer App::devices(const Request&) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("devices").beginArray();
  auto write = [&](const std::string& node, int64_t index, const Device& d) {
    w.beginObject().field("node", node).field("index", index).field("name", d.name).key("vendor");
    d.vendor.empty() ? w.null() : w.value(d.vendor);
    w.key("memory_bytes");
    d.memory == trace::kNull ? w.null() : w.value(d.memory);
    w.field("simulated", simulated(d.name)).endObject();
  };
  if (cluster()) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    if (!status) return Answer::error(status.status());
    for (const cluster::NodeStatus& n : (*status)->nodes)
      for (const cluster::DeviceStatus& gpu : n.gpus)
        write(n.node, gpu.index, {gpu.name, "", static_cast<int64_t>(gpu.memory_bytes)});
  } else {
    Answer instead;
    TracePtr trace = traceOf("file", instead);
    if (!trace) return instead;
    Devices all;
    if (Status s = readDevices(trace->timeline(), all); !s) return Answer::error(s);
    for (const auto& [node, list] : all)
      for (const auto& [index, device] : list) write(node, index, device);
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

/// Links are recorded with a trace; a master without one knows the GPUs alone.
Answer App::topology(const Request& r) {
  struct Link {
    std::string node;
    int64_t from, to;
    std::string kind;
    double gbps;
    std::string peer;
  };
  Devices all;
  std::map<std::string, std::vector<Link>> links;
  if (!cluster() || !r.get("trace").empty()) {
    Answer instead;
    TracePtr trace = traceOf(cluster() ? r.get("trace") : "file", instead);
    if (!trace) return instead;
    const Timeline& t = trace->timeline();
    if (Status s = readDevices(t, all); !s) return Answer::error(s);
    auto textOf = [&](int64_t slot) {
      return slot == trace::kNull ? std::string() : std::string(t.names().text(static_cast<uint32_t>(slot)));
    };
    using namespace trace::links;
    Status s = analysis::eachRow<trace::LinkRow>(
        t.reader(), t.names(), {node, device, peer_node, peer_device, kind, gbps, measured_gbps},
        [&](const trace::LinkRow& l, const auto&) {
          const int64_t speed = l.measured_gbps != trace::kNull ? l.measured_gbps : l.gbps;
          links[textOf(l.node)].push_back(
              {textOf(l.node), l.device, l.peer_device, textOf(l.kind),
               speed == trace::kNull ? std::numeric_limits<double>::quiet_NaN() : std::bit_cast<double>(speed),
               textOf(l.peer_node)});
        });
    if (!s) return Answer::error(s);
  } else {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
    if (!status) return Answer::error(status.status());
    for (const cluster::NodeStatus& n : (*status)->nodes)
      for (const cluster::DeviceStatus& gpu : n.gpus)
        all[n.node][gpu.index] = {gpu.name, "", static_cast<int64_t>(gpu.memory_bytes)};
  }
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("nodes").beginArray();
  for (const auto& [node, list] : all) {
    w.beginObject().field("node", node).key("gpus").beginArray();
    for (const auto& [index, device] : list)
      w.beginObject().field("index", index).field("name", device.name).endObject();
    w.endArray().key("links").beginArray();
    for (const Link& l : links[node]) {
      w.beginObject().key("from");
      l.from == trace::kNull ? w.null() : w.value(l.from);
      w.key("to");
      l.to == trace::kNull ? w.null() : w.value(l.to);
      w.field("peer_node", l.peer).field("kind", l.kind).field("bandwidth_gbps", l.gbps).endObject();
    }
    w.endArray().endObject();
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

}  // namespace tracesmith::server
