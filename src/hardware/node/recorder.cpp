#include "hardware/node/recorder.hpp"

#include <unistd.h>

#include "base/text.hpp"
#include "hardware/capability.hpp"
#include "hardware/sources.hpp"
#include "hardware/topology/links.hpp"

namespace tracesmith::hardware {

using namespace tracesmith::trace;

namespace {

std::string nodeName(const Places& places) {
  if (!places.node.empty()) return places.node;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

int64_t orNull(int64_t v) { return v == kUnknown ? kNull : v; }
int64_t khz(int64_t mhz) { return mhz == kUnknown ? kNull : mhz * 1000; }

/// The largest of a GPU's figures of this name; 0: it was not measured.
double measuredOf(const Capability& capability, const std::string& name, int32_t gpu) {
  const std::string part = "gpu " + std::to_string(gpu);
  double most = 0;
  for (const Figure& f : capability.figures)
    if (f.name == name && (f.part == part || f.part.starts_with(part + " "))) most = std::max(most, f.median);
  return most;
}

DeviceRow deviceRow(Writer& writer, Appender& out, int64_t node, const Gpu& g, const Capability& capability) {
  DeviceRow row;
  row.node = node;
  row.device = g.index;
  row.name = writer.string(g.name);
  row.vendor = writer.string(g.vendor);
  if (!g.uuid.empty()) row.uuid = writer.string(g.uuid);
  if (!g.pci.empty()) row.pci = writer.string(g.pci);
  row.memory = orNull(g.memory_bytes);
  row.cc_major = orNull(g.cc_major);
  row.cc_minor = orNull(g.cc_minor);
  row.sms = orNull(g.multiprocessors);
  row.clock_khz = khz(g.clock_mhz);
  row.memory_clock_khz = khz(g.memory_clock_mhz);
  row.bus_bits = orNull(g.bus_bits);
  if (g.vendor == "nvidia") row.warp = 32;
  std::string args;
  JsonWriter w(args);
  w.beginObject().field("driver", g.driver).field("simulated", g.simulated);
  if (g.numa != kUnknown) w.field("numa", g.numa);
  if (!g.cpus.empty()) w.field("cpus", g.cpus);
  if (g.pcie_generation != kUnknown) w.field("pcie_generation", g.pcie_generation).field("pcie_lanes", g.pcie_lanes);
  if (g.power_limit_watts != kUnknown) w.field("power_limit_watts", g.power_limit_watts);
  if (const double tflops = measuredOf(capability, "gpu_matrix_tflops", g.index); tflops > 0)
    w.field("measured_tflops", tflops);
  if (const double gbps = measuredOf(capability, "gpu_memory_gbps", g.index); gbps > 0)
    w.field("measured_memory_gbps", gbps);
  if (!g.problem.empty()) w.field("problem", g.problem);
  if (g.mig) {
    w.key("mig").beginArray();
    for (const MigInstance& m : g.instances) w.beginObject().field("name", m.name).field("uuid", m.uuid).endObject();
    w.endArray();
  }
  w.endObject();
  row.args = out.text(args);
  return row;
}

}  // namespace

Status appendInventory(Writer& writer, Appender& out, const Inventory& inventory, std::set<std::string>& known,
                       bool with_node) {
  const int64_t node = writer.string(inventory.node);
  if (with_node) {
    NodeRow row;
    row.node = node;
    row.hostname = writer.string(inventory.hostname);
    row.boot = writer.string(inventory.boot);
    row.os = writer.string(inventory.os);
    row.cpus = orNull(inventory.cpu.threads);
    row.memory = orNull(inventory.memory_bytes);
    row.gpus = static_cast<int64_t>(inventory.gpus.size());
    row.args = out.text(inventoryJson(inventory));
    TS_TRY(out.append(row));
  }
  Capability capability;
  if (Result<Capability> record = loadCapability(capabilityPath(inventory.node)); record)
    capability = std::move(*record);
  std::set<int32_t> fresh;
  for (const Gpu& g : inventory.gpus) {
    if (!known.insert(gpuKey(g)).second) continue;
    fresh.insert(g.index);
    TS_TRY(out.append(deviceRow(writer, out, node, g, capability)));
  }
  if (fresh.empty()) return {};
  cluster::GPUTopology topology(inventory);
  topology.setMeasured(capability.links());
  for (const cluster::GPULink& l : topology.getTopology().links) {
    if (l.type == cluster::GPULinkType::None ||
        (!fresh.contains(static_cast<int32_t>(l.gpu_a)) && !fresh.contains(static_cast<int32_t>(l.gpu_b))))
      continue;
    LinkRow row;
    row.node = row.peer_node = node;
    row.device = l.gpu_a;
    row.peer_device = l.gpu_b;
    row.kind = writer.string(cluster::linkTypeName(l.type));
    row.count = l.link_count;
    if (l.bandwidth_gbps) row.gbps = real(*l.bandwidth_gbps);
    if (l.measured_bandwidth) row.measured_gbps = real(*l.measured_bandwidth);
    TS_TRY(out.append(row));
  }
  return {};
}

TelemetryRecorder::TelemetryRecorder(Writer& writer, const SamplerOptions& options)
    : writer_(writer),
      out_(writer.appender()),
      node_(writer.string(nodeName(options.places))),
      sampler_(options, *this) {}

TelemetryRecorder::~TelemetryRecorder() { (void)stop(); }

void TelemetryRecorder::start() { sampler_.start(); }

Status TelemetryRecorder::stop() {
  sampler_.stop();
  if (!out_) return status_;
  if (Status s = out_->flush(); status_.ok()) status_ = s;
  out_.reset();
  return status_;
}

template <typename Row>
void TelemetryRecorder::append(const Row& row) {
  if (Status s = out_->append(row); !s && status_.ok()) status_ = s;
}

void TelemetryRecorder::inventory(const Inventory& inventory) {
  stats_.gpus = inventory.gpus.size();
  if (Status s = appendInventory(writer_, *out_, inventory, known_, !node_written_); !s && status_.ok()) status_ = s;
  node_written_ = true;
}

void TelemetryRecorder::samples(std::span<const Sample> samples) {
  for (const Sample& s : samples) {
    auto name = names_.find(s.metric);
    if (name == names_.end())
      name = names_
                 .emplace(s.metric, std::pair{writer_.string(s.metric->name),
                                              s.metric->unit.empty() ? kNull : writer_.string(s.metric->unit)})
                 .first;
    MetricRow row;
    row.ts = s.ts_ns;
    row.node = node_;
    row.device = s.device < 0 ? kNull : s.device;
    row.name = name->second.first;
    row.unit = name->second.second;
    row.value = real(s.value);
    if (!s.part.empty()) row.part = writer_.string(s.part);
    append(row);
  }
  stats_.samples += samples.size();
}

void TelemetryRecorder::gap(const Gap& gap) {
  if (gap.to_ns == 0) return;  // its end will come
  ++stats_.gaps;
  stats_.missed += gap.missed;
  LossRow row;
  row.ts = gap.from_ns;
  row.node = node_;
  row.cause = writer_.string("telemetry: " + gap.cause);
  row.count = static_cast<int64_t>(gap.missed);
  row.detail =
      out_->text(gap.source + ", " + humanNs(static_cast<double>(gap.to_ns - gap.from_ns)) + ": " + gap.detail);
  append(row);
}

void TelemetryRecorder::costs(std::span<const CollectorCost> costs) {
  std::string json;
  JsonWriter w(json);
  w.beginArray();
  stats_.cpu_s = 0;
  for (const CollectorCost& c : costs) {
    stats_.cpu_s += c.cpu_s;
    w.beginObject().field("collector", c.source).field("cpu_s", c.cpu_s).field("wall_s", c.wall_s);
    w.field("longest_s", c.longest_s).field("elapsed_s", c.elapsed_s).field("readings", c.readings);
    w.field("samples", c.samples).endObject();
  }
  w.endArray();
  MetadataRow row;
  row.node = node_;
  row.key = writer_.string(kCostKey);
  row.value = out_->text(json);
  append(row);
  if (Status s = out_->flush(); !s && status_.ok()) status_ = s;  // what is older than this survives a crash
}

}  // namespace tracesmith::hardware
