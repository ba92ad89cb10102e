#include "server/sources/topology.hpp"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/rows/each_row.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::server {
namespace {

/// The NICs in what a node says of itself (`nodes.args`). Traces of before, and simulated nodes, say nothing.
std::vector<Nic> nicsOf(std::string_view args) {
  std::vector<Nic> nics;
  simdjson::dom::parser parser;
  simdjson::dom::element all;
  if (parser.parse(simdjson::padded_string(args)).get(all) != simdjson::SUCCESS) return nics;
  simdjson::dom::array list;
  if (all["nics"].get(list) != simdjson::SUCCESS) return nics;
  auto text = [](simdjson::dom::element e, const char* key) {
    std::string_view v;
    return e[key].get(v) == simdjson::SUCCESS ? std::string(v) : std::string();
  };
  for (simdjson::dom::element e : list) {
    Nic nic{text(e, "name"), text(e, "kind"), text(e, "state"), trace::kNull, {}};
    if (int64_t speed; e["speed_mbit"].get(speed) == simdjson::SUCCESS) nic.speed_mbit = speed;
    nics.push_back(std::move(nic));
  }
  if (all["nic_nearness"].get(list) != simdjson::SUCCESS) return nics;
  for (simdjson::dom::element e : list) {
    int64_t gpu;
    const std::string name = text(e, "nic");
    for (Nic& nic : nics)
      if (nic.name == name && e["gpu"].get(gpu) == simdjson::SUCCESS) nic.nearness[gpu] = text(e, "nearness");
  }
  return nics;
}

}  // namespace

bool Link::operator==(const Link& o) const {
  return from == o.from && to == o.to && kind == o.kind && count == o.count && measured == o.measured &&
         (gbps == o.gbps || (std::isnan(gbps) && std::isnan(o.gbps)));
}

Result<Topology> topologyOf(const Timeline& t) {
  Topology all;
  auto textOf = [&](int64_t slot) {
    return slot == trace::kNull ? std::string() : std::string(t.names().text(static_cast<uint32_t>(slot)));
  };
  {
    using namespace trace::nodes;
    TS_TRY(analysis::eachRow<trace::NodeRow>(t.reader(), t.names(), {node, os, args},
                                             [&](const trace::NodeRow& r, const auto& texts) {
                                               NodeTopology& n = all[textOf(r.node)];
                                               n.simulated |= textOf(r.os) == trace::kSimulated;
                                               if (const std::string_view own = texts(args); !own.empty())
                                                 n.nics = nicsOf(own);
                                             }));
  }
  {
    using namespace trace::devices;
    TS_TRY(analysis::eachRow<trace::DeviceRow>(
        t.reader(), t.names(), {node, device, name, vendor, memory}, [&](const trace::DeviceRow& r, const auto&) {
          if (r.device != trace::kNull)
            all[textOf(r.node)].gpus[r.device] = {textOf(r.name), textOf(r.vendor), r.memory};
        }));
  }
  using namespace trace::links;
  TS_TRY(analysis::eachRow<trace::LinkRow>(
      t.reader(), t.names(), {node, device, peer_node, peer_device, kind, count, gbps, measured_gbps},
      [&](const trace::LinkRow& l, const auto&) {
        const bool measured = l.measured_gbps != trace::kNull;
        const int64_t speed = measured ? l.measured_gbps : l.gbps;
        Link link{l.device,       l.peer_device, textOf(l.peer_node),
                  textOf(l.kind), l.count,       speed == trace::kNull ? std::nan("") : std::bit_cast<double>(speed),
                  measured};
        // Every recording of a node says it again.
        std::vector<Link>& list = all[textOf(l.node)].links;
        if (std::none_of(list.begin(), list.end(),
                         [&](const Link& o) { return o == link && o.peer_node == link.peer_node; }))
          list.push_back(std::move(link));
      }));
  return all;
}

Topology topologyOf(const cluster::ClusterStatus& status) {
  Topology all;
  for (const cluster::NodeStatus& n : status.nodes) {
    all[n.node].simulated = n.simulated;
    for (const cluster::DeviceStatus& gpu : n.gpus)
      all[n.node].gpus[gpu.index] = {gpu.name, gpu.vendor,
                                     gpu.memory_bytes ? static_cast<int64_t>(*gpu.memory_bytes) : trace::kNull};
    for (const model::LinkStatus& l : n.links) {
      const std::optional<double> gbps = l.measured_gbps ? l.measured_gbps : l.gbps;
      all[n.node].links.push_back(
          {l.gpu_a, l.gpu_b, n.node, l.kind, l.count, gbps.value_or(std::nan("")), l.measured_gbps.has_value()});
    }
  }
  return all;
}

std::string topologyJson(const Topology& topology) {
  auto orNone = [](int64_t slot) { return slot == trace::kNull ? std::nullopt : std::optional(slot); };
  model::TopologyAnswer out;
  for (const auto& [node, n] : topology) {
    model::TopologyNode& to = out.nodes.emplace_back();
    to.node = node;
    to.simulated = n.simulated;
    for (const auto& [index, device] : n.gpus) to.gpus.push_back({index, device.name});
    for (const Link& l : n.links)
      to.links.push_back({orNone(l.from), orNone(l.to), l.peer_node, l.kind, orNone(l.count),
                          std::isnan(l.gbps) ? std::nullopt : std::optional(l.gbps), l.measured});
    for (const Nic& nic : n.nics) {
      to.nics.push_back({nic.name, nic.kind, nic.state, orNone(nic.speed_mbit), {}});
      for (const auto& [gpu, nearness] : nic.nearness) to.nics.back().near.push_back({gpu, nearness});
    }
  }
  return model::toJson(out);
}

}  // namespace tracesmith::server
