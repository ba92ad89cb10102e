// The topology as a matrix, as Graphviz and as JSON.
#include <cstdio>

#include "base/text.hpp"
#include "hardware/inventory.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {

using hardware::Gpu;
using hardware::kUnknown;
using hardware::Nearness;

namespace {

std::string name(uint32_t gpu) { return "GPU" + std::to_string(gpu); }

std::string gbps(std::optional<double> v) {
  if (!v) return "unknown";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, *v < 10 ? "%.1f GB/s" : "%.0f GB/s", *v);
  return buffer;
}

bool isNvLink(GPULinkType t) { return t != GPULinkType::None && t != GPULinkType::PCIe; }

}  // namespace

std::string GPUTopology::toASCII() const {
  const hardware::Inventory& v = *inventory_;
  std::vector<std::vector<std::string>> rows(1, {""});
  for (const Gpu& g : v.gpus) rows[0].push_back(name(static_cast<uint32_t>(g.index)));
  size_t nics = 0;
  for (const hardware::Nic& n : v.nics) {
    bool near = false;
    for (const hardware::NicNearness& x : v.nic_nearness) near |= x.nic == n.name;
    if (near) rows[0].push_back("NIC" + std::to_string(nics++));
  }
  for (const char* heading : {"CPU Affinity", "NUMA Affinity"}) rows[0].push_back(heading);
  for (const Gpu& a : v.gpus) {
    const auto i = static_cast<uint32_t>(a.index);
    std::vector<std::string> row = {name(i)};
    for (const Gpu& b : v.gpus) {
      const GPULink* link = a.index == b.index ? nullptr : getLink(i, static_cast<uint32_t>(b.index));
      const hardware::GpuPair* pair = v.pair(a.index, b.index);
      if (a.index == b.index)
        row.push_back("X");
      else if (link && isNvLink(link->type))
        row.push_back("NV" + std::to_string(link->link_count));
      else
        row.push_back(pair ? hardware::nearnessName(pair->nearness) : "?");
    }
    for (const hardware::Nic& n : v.nics)
      for (const hardware::NicNearness& x : v.nic_nearness)
        if (x.gpu == a.index && x.nic == n.name) row.push_back(hardware::nearnessName(x.nearness));
    row.resize(rows[0].size() - 2);
    row.push_back(a.cpus.empty() ? "N/A" : a.cpus);
    row.push_back(a.numa == kUnknown ? "N/A" : std::to_string(a.numa));
    rows.push_back(std::move(row));
  }
  std::string out;
  if (v.gpus.empty()) return "No GPU found.\n";
  out += alignTable(rows);
  nics = 0;
  std::string legend;
  for (const hardware::Nic& n : v.nics) {
    bool near = false;
    for (const hardware::NicNearness& x : v.nic_nearness) near |= x.nic == n.name;
    if (near) legend += "  NIC" + std::to_string(nics++) + ": " + n.name + "\n";
  }
  if (!legend.empty()) out += "\nNICs:\n" + legend;
  out +=
      "\nLegend:\n"
      "  X     itself\n"
      "  NV#   # NVLinks";
  out += topology_.has_nvswitch ? ", through NVSwitch\n" : "\n";
  out +=
      "  PSB   same board          PIX   at most one PCIe bridge   PXB   several PCIe bridges\n"
      "  PHB   PCIe host bridge    NODE  within one NUMA node      SYS   between NUMA nodes\n";
  std::map<std::pair<std::string, std::optional<double>>, uint32_t> kinds;
  for (const GPULink& l : topology_.links)
    if (l.type != GPULinkType::None)
      ++kinds[{std::string(linkTypeName(l.type)) + " × " + std::to_string(l.link_count), l.bandwidth_gbps}];
  if (!kinds.empty()) out += "\nBandwidth per pair, in one direction, as reported by the hardware:\n";
  for (const auto& [kind, count] : kinds)
    out += "  " + kind.first + ": " + gbps(kind.second) + " (" + std::to_string(count) +
           (count == 1 ? " pair)\n" : " pairs)\n");
  bool measured = false;
  for (const GPULink& l : topology_.links) {
    if (!l.measured_bandwidth) continue;
    if (!measured) out += "Measured:\n";
    measured = true;
    out += "  " + name(l.gpu_a) + " - " + name(l.gpu_b) + ": " + gbps(l.measured_bandwidth) + "\n";
  }
  bool simulated = false;
  for (const Gpu& g : v.gpus) simulated |= g.simulated;
  if (simulated) out += "\nThese GPUs are simulated.\n";
  return out;
}

std::string GPUTopology::toGraphviz() const {
  std::string out =
      "graph topology {\n  layout=circo;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef4ea\"];\n";
  const hardware::Inventory& v = *inventory_;
  for (const Gpu& g : v.gpus) {
    out += "  gpu" + std::to_string(g.index) + " [label=";
    appendJsonString(out, name(static_cast<uint32_t>(g.index)) + "\n" + g.name);
    out += "];\n";
  }
  bool bus = false;
  for (const GPULink& l : topology_.links) bus |= l.type == GPULinkType::NVSwitch;
  if (bus) out += "  nvswitch [label=\"NVSwitch\", fillcolor=\"#76b900\"];\n";
  std::map<uint32_t, const GPULink*> to_switch;
  for (const GPULink& l : topology_.links) {
    if (l.type == GPULinkType::NVSwitch) {
      to_switch[l.gpu_a] = &l;
      to_switch[l.gpu_b] = &l;
    } else if (l.type != GPULinkType::None) {
      const bool nv = isNvLink(l.type);
      out += "  gpu" + std::to_string(l.gpu_a) + " -- gpu" + std::to_string(l.gpu_b) + " [label=\"" +
             (nv ? "NV" + std::to_string(l.link_count) + ", " + gbps(l.bandwidth_gbps) : std::string("PCIe")) +
             "\", penwidth=" + (nv ? std::to_string(1 + l.link_count / 2) : "1, style=dashed, color=gray") + "];\n";
    }
  }
  for (const auto& [gpu, l] : to_switch)
    out += "  gpu" + std::to_string(gpu) + " -- nvswitch [label=\"NV" + std::to_string(l->link_count) + ", " +
           gbps(l->bandwidth_gbps) + "\", penwidth=3];\n";
  for (const hardware::NicNearness& n : v.nic_nearness)
    if (n.nearness <= Nearness::switches) {
      out += "  gpu" + std::to_string(n.gpu) + " -- ";
      appendJsonString(out, n.nic);
      out += std::string(" [label=\"") + hardware::nearnessName(n.nearness) + "\", style=dotted];\n";
    }
  return out + "}\n";
}

std::string GPUTopology::toJSON() const {
  const hardware::Inventory& v = *inventory_;
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("node", v.node).field("gpu_count", static_cast<uint64_t>(topology_.gpu_count));
  w.field("has_nvswitch", topology_.has_nvswitch).key("gpus").beginArray();
  for (const Gpu& g : v.gpus) {
    w.beginObject().field("index", static_cast<int64_t>(g.index)).field("name", g.name).field("pci", g.pci);
    w.field("simulated", g.simulated).key("numa");
    g.numa == kUnknown ? w.null() : w.value(g.numa);
    w.key("cpus");
    g.cpus.empty() ? w.null() : w.value(g.cpus);
    w.endObject();
  }
  w.endArray().key("links").beginArray();
  for (const GPULink& l : topology_.links) {
    const hardware::GpuPair* pair = v.pair(static_cast<int32_t>(l.gpu_a), static_cast<int32_t>(l.gpu_b));
    w.beginObject().field("gpu_a", static_cast<uint64_t>(l.gpu_a)).field("gpu_b", static_cast<uint64_t>(l.gpu_b));
    w.field("type", linkTypeName(l.type)).field("link_count", static_cast<uint64_t>(l.link_count));
    w.key("bandwidth_gbps");
    l.bandwidth_gbps ? w.value(*l.bandwidth_gbps) : w.null();
    w.key("measured_bandwidth");
    l.measured_bandwidth ? w.value(*l.measured_bandwidth) : w.null();
    w.key("nearness");
    pair && pair->nearness != Nearness::unknown ? w.value(hardware::nearnessName(pair->nearness)) : w.null();
    w.key("peer_access");
    pair && pair->peer_access != kUnknown ? w.value(pair->peer_access == 1) : w.null();
    w.key("optimal_path").beginArray();
    for (uint32_t g : getOptimalPath(l.gpu_a, l.gpu_b)) w.value(static_cast<uint64_t>(g));
    w.endArray().key("path_bandwidth_gbps");
    const std::optional<double> width = getPathBandwidth(l.gpu_a, l.gpu_b);
    width ? w.value(*width) : w.null();
    w.endObject();
  }
  w.endArray().key("nics").beginArray();
  for (const hardware::NicNearness& n : v.nic_nearness)
    w.beginObject()
        .field("gpu", static_cast<int64_t>(n.gpu))
        .field("nic", n.nic)
        .field("nearness", hardware::nearnessName(n.nearness))
        .endObject();
  w.endArray().endObject();
  return out;
}

}  // namespace tracesmith::cluster
