#include "process/rdma.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "hardware/host/sources.hpp"
#include "hardware/process.hpp"
#include "hardware/sysfs.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

namespace fs = std::filesystem;
using hardware::Metric;
using model::RdmaPort;
using model::RdmaUser;

constexpr const char* kDevices = "/dev/infiniband/";

std::string deviceOf(const RdmaPort& port) { return port.name.substr(0, port.name.rfind(':')); }

/// Devices that processes have open, by process: whoever sends or receives has /dev/infiniband/uverbs<N> open.
std::map<int64_t, std::set<std::string>> openDevices(const std::string& root) {
  std::map<std::string, std::string> device_of;  // uverbs0 → mlx5_0
  const std::string verbs = root + "/sys/class/infiniband_verbs/";
  for (const std::string& name : hardware::listFolder(verbs))
    if (const auto device = hardware::readText(verbs + name + "/ibdev")) device_of[name] = *device;
  std::map<int64_t, std::set<std::string>> open;
  if (device_of.empty()) return open;
  std::error_code failed;
  for (const int64_t pid : processIds(root)) {
    const std::string folder = root + "/proc/" + std::to_string(pid) + "/fd";
    for (fs::directory_iterator i(folder, failed), end; !failed && i != end; i.increment(failed)) {
      std::error_code gone;
      const std::string target = fs::read_symlink(i->path(), gone).string();
      if (gone || !target.starts_with(kDevices)) continue;
      const auto device = device_of.find(target.substr(std::string_view(kDevices).size()));
      if (device != device_of.end()) open[pid].insert(device->second);
    }
  }
  return open;
}

RdmaUser userOf(const std::string& root, int64_t pid, const std::vector<capture::ProcessNow>& recorded) {
  const hardware::ProcessInfo info = hardware::processInfo(root, pid);
  RdmaUser user;
  user.pid = pid;
  user.user = info.user;
  user.command = info.command;
  if (info.rank != hardware::kUnknown) user.rank = info.rank;
  for (const capture::ProcessNow& p : recorded)
    if (p.pid == pid && p.rank >= 0 && !p.simulated) user.rank = p.rank;
  return user;
}

/// GPUs that no others are nearer to, if they are in the same part of the machine.
std::vector<uint32_t> nearGpus(const hardware::Inventory& inventory, const std::string& nic) {
  hardware::Nearness best = hardware::Nearness::system;
  std::vector<uint32_t> near;
  for (const hardware::NicNearness& n : inventory.nic_nearness) {
    if (n.nic != nic || n.gpu < 0 || n.nearness > best || n.nearness == hardware::Nearness::system) continue;
    if (n.nearness < best) near.clear();
    best = n.nearness;
    near.push_back(static_cast<uint32_t>(n.gpu));
  }
  return near;
}

void describe(RdmaPort& port, const hardware::Inventory& inventory) {
  // The inventory leaves a device's first port unnamed.
  const std::string nic = port.name.ends_with(":1") ? deviceOf(port) : port.name;
  for (const hardware::Nic& n : inventory.nics) {
    if (n.kind != "infiniband" || n.name != nic) continue;
    port.state = n.state;
    port.link_layer = n.link_layer;
    port.interfaces = n.interfaces;
    if (n.speed_mbit > 0) port.speed_gbps = static_cast<double>(n.speed_mbit) / 1e3;
    if (n.numa >= 0) port.numa = n.numa;
  }
  port.near_gpus = nearGpus(inventory, nic);
}

/// Processes on these GPUs.
std::set<int64_t> onGpus(const hardware::Latest::State& state, const std::vector<uint32_t>& gpus) {
  std::set<int64_t> pids;
  for (const hardware::Latest::Value& v : state.values) {
    int64_t pid = 0;
    if (v.metric == &hardware::metricInfo(Metric::gpu_process_memory_bytes) && v.device >= 0 && parseInt(v.part, pid) &&
        std::count(gpus.begin(), gpus.end(), static_cast<uint32_t>(v.device)) > 0)
      pids.insert(pid);
  }
  return pids;
}

}  // namespace

RdmaWatch::RdmaWatch(std::string root) : root_(std::move(root)), source_(hardware::rdmaSource(root_)) {}

void RdmaWatch::takeValue(const hardware::Sample& sample, std::vector<RdmaPort>& ports) {
  const std::string part(sample.part), name = part.substr(0, part.find(' '));
  auto port = std::find_if(ports.begin(), ports.end(), [&](const RdmaPort& p) { return p.name == name; });
  if (port == ports.end()) {
    port = ports.insert(ports.end(), RdmaPort());
    port->name = name;
  }
  Value& before = before_[std::string(sample.metric->name) + " " + part];
  std::optional<double> rate;
  if (before.ts_ns != 0 && sample.ts_ns > before.ts_ns)
    rate = (sample.value - before.value) * 1e9 / static_cast<double>(sample.ts_ns - before.ts_ns);
  before = {sample.ts_ns, sample.value};
  const auto is = [&](Metric m) { return sample.metric == &hardware::metricInfo(m); };
  if (is(Metric::rdma_rx_bytes)) port->rx_bytes_per_s = rate;
  if (is(Metric::rdma_tx_bytes)) port->tx_bytes_per_s = rate;
  if (is(Metric::rdma_rx_packets)) port->rx_packets_per_s = rate;
  if (is(Metric::rdma_tx_packets)) port->tx_packets_per_s = rate;
  if (is(Metric::rdma_tx_wait_ticks)) port->tx_wait_ticks_per_s = rate;
  if (is(Metric::rdma_errors)) {
    const std::string counter = part.substr(std::min(part.size(), name.size() + 1));
    port->counters.push_back({counter, sample.value, rate, hardware::tellsOfCongestion(counter)});
  }
}

std::vector<RdmaPort> RdmaWatch::look(const hardware::Latest::State& state,
                                      const std::vector<capture::ProcessNow>& recorded) {
  std::vector<RdmaPort> ports;
  // A driver that was loaded again has other files.
  hardware::Batch batch;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!open_) open_ = source_->open().ok();
    if (!open_) return ports;
    batch.begin(rawClock(), -1);
    open_ = source_->read(hardware::Rate::slow, batch).ok();
    if (open_) break;
  }
  if (!open_) return ports;
  for (const hardware::Sample& s : batch.samples()) takeValue(s, ports);
  const std::map<int64_t, std::set<std::string>> open = openDevices(root_);
  for (RdmaPort& port : ports) {
    describe(port, state.inventory);
    for (const auto& [pid, devices] : open)
      if (devices.contains(deviceOf(port))) port.users.push_back(userOf(root_, pid, recorded));
    if (!port.users.empty()) continue;
    for (const int64_t pid : onGpus(state, port.near_gpus)) {
      port.users.push_back(userOf(root_, pid, recorded));
      port.users.back().guessed = true;
    }
  }
  return ports;
}

}  // namespace tracesmith::process
