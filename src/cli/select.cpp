#include "cli/select.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "hardware/capability.hpp"
#include "hardware/latest.hpp"
#include "schedule/node.hpp"

namespace tracesmith::cli {
namespace {

using hardware::Latest;
using hardware::Metric;
using schedule::Choice;
using schedule::Selection;

/// Waits until every GPU that answers has told how busy it is, or for as long as a driver may take.
void waitForTelemetry(const Latest& latest, const hardware::Inventory& inventory, int timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (bool all = false; !all && std::chrono::steady_clock::now() < until;) {
    all = true;
    latest.read([&](const Latest::View& view) {
      for (const hardware::Gpu& g : inventory.gpus)
        all &= !g.problem.empty() || view.get(Metric::gpu_utilization_percent, g.index).known();
    });
    if (!all) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::string number(const std::optional<double>& value, const char* format) {
  if (!value) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, *value);
  return text;
}

void print(const Selection& selection, const hardware::Inventory& inventory, bool near) {
  std::vector<std::vector<std::string>> rows = {{"device", "model", "score", "free memory", "busy", "temperature"}};
  if (near) rows[0].push_back("link");
  for (const Choice& c : selection.devices) {
    std::string model = "-";
    for (const hardware::Gpu& g : inventory.gpus)
      if (schedule::deviceId(inventory.node, g.index) == c.device_id)
        model = printable(g.name) + (g.simulated ? " (simulated)" : "");
    rows.push_back({printable(c.device_id), model, number(c.score, "%.3f"),
                    c.memory_free_bytes ? humanBytes(*c.memory_free_bytes) : "-",
                    number(c.utilization_percent, "%.0f %%"), number(c.temperature_celsius, "%.0f °C")});
    if (near) rows.back().push_back(number(c.near_gbps, "%.1f GB/s"));
  }
  if (rows.size() > 1) std::printf("%s", tableText(rows).c_str());
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const schedule::Rejection& r : selection.rejected) by_reason[r.text()].push_back(r.device_id);
  for (const auto& [reason, ids] : by_reason) {
    std::string list;
    for (size_t i = 0; i < ids.size() && i < 8; ++i) list += (i ? ", " : "") + printable(ids[i]);
    if (ids.size() > 8) list += " and " + std::to_string(ids.size() - 8) + " more";
    std::printf("not suitable: %s: %s\n", list.c_str(), printable(reason).c_str());
  }
}

}  // namespace

void SelectOptions::add(Command& command) {
  Option chosen = command.flag("--select", select, "Choose the best GPUs by free memory, idleness and temperature");
  command.option("--count", request.count, "How many GPUs to choose")
      .showDefault()
      .check(range(1, 65536))
      .needs(chosen);
  command.option("--min-memory", min_memory_, "Free memory that each must have: 8GB, 8GiB, or bytes")
      .type("SIZE")
      .needs(chosen);
  command.option("--precision", request.precision, "Precision that each must support")
      .check(oneOf(schedule::precisions()))
      .needs(chosen);
  command.option("--vendor", request.vendor, "Only GPUs of this vendor: nvidia, amd, intel, apple, qualcomm")
      .type("NAME")
      .needs(chosen);
  command.option("--near", request.near, "Prefer GPUs with the fastest link to this one").type("GPU").needs(chosen);
  command.option("--exclude", request.exclude, "GPUs not to choose").type("GPU,...").commas().needs(chosen);
  utilization_ = command.option("--max-busy", max_utilization_, "Utilisation that each may have at most, in percent")
                     .check(range(0.0, 100.0))
                     .needs(chosen);
  temperature_ = command.option("--max-temperature", max_temperature_, "Temperature that each may have at most, in °C")
                     .needs(chosen);
}

Status SelectOptions::read() {
  if (!min_memory_.empty() && !parseBytes(min_memory_, request.min_memory_bytes))
    return Status::invalid("--min-memory: '" + min_memory_ + "' is not a size: use 8GB, 8GiB or a number of bytes");
  if (utilization_->given()) request.max_utilization_percent = max_utilization_;
  if (temperature_->given()) request.max_temperature_celsius = max_temperature_;
  return {};
}

int selectDevices(const hardware::Places& places, const schedule::SelectionRequest& request, bool json) {
  const hardware::Inventory inventory = hardware::discover(places);
  hardware::Capability capability;
  if (Result<hardware::Capability> record = hardware::loadCapability(hardware::capabilityPath(inventory.node)); record)
    capability = std::move(*record);
  Latest latest;
  schedule::GPUClusteringManager manager(latest);
  if (Status s = schedule::registerNode(manager, inventory, capability); !s) return fail(s);
  hardware::SamplerOptions options;
  options.places = places;
  options.host = false;
  hardware::Sampler sampler(options, latest);
  sampler.start();
  (void)sampler.waitForInventory(options.hang_ms);
  waitForTelemetry(latest, inventory, options.hang_ms);
  const Result<Selection> selection = manager.select(request);
  sampler.stop();
  if (!selection) return fail(selection.status());
  if (json)
    std::printf("%s\n", selectionJson(*selection, request).c_str());
  else
    print(*selection, inventory, !request.near.empty());
  if (selection->devices.size() >= request.count) return 0;
  if (inventory.gpus.empty()) return fail(Status::notFound("this machine has no GPU"));
  const size_t found = selection->devices.size();
  return fail(Status::notFound(found == 0 ? "no GPU is suitable"
                                          : std::to_string(request.count) + " GPUs were asked for, and only " +
                                                std::to_string(found) + (found == 1 ? " is" : " are") + " suitable"));
}

}  // namespace tracesmith::cli
