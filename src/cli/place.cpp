#include "cli/place.hpp"

#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "hardware/capability.hpp"

namespace tracesmith::cli {
namespace {

constexpr int kMostRanks = static_cast<int>(schedule::PlacementDevices::kMost);

void print(const schedule::Placement& placement) {
  std::vector<std::vector<std::string>> rows = {{"rank", "device"}};
  std::string visible;
  for (const schedule::Placed& p : placement.ranks) {
    rows.push_back({std::to_string(p.rank), printable(p.device_id)});
    visible += (visible.empty() ? "" : ",") + p.device_id.substr(p.device_id.rfind(':') + 1);
  }
  std::printf("%s", tableText(rows).c_str());
  const double gain = placement.naive_cost > 0 ? 100 * (1 - placement.cost / placement.naive_cost) : 0;
  if (gain < 0.05)
    std::printf("The usual order is as good.\n");
  else
    std::printf("Communication takes %.1f %% less than in the usual order%s.\n", gain,
                placement.exact ? "; no other placement is better" : "");
  std::printf("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%s\n", visible.c_str());
  if (placement.assumed_links > 0)
    std::printf("note: the speed of %s is not known, and a usual one was assumed: run tracesmith bench links\n",
                counted(placement.assumed_links, "pair of GPUs", "pairs of GPUs").c_str());
}

}  // namespace

void PlaceOptions::add(Command& command) {
  Option chosen =
      command.flag("--place", place, "Put the ranks of a job on the GPUs, those that exchange most nearest");
  command.option("--tensor", request.tensor, "Ranks of a tensor-parallel group")
      .showDefault()
      .check(range(1, kMostRanks))
      .needs(chosen);
  command.option("--data", request.data, "Ranks of a data-parallel group")
      .showDefault()
      .check(range(1, kMostRanks))
      .needs(chosen);
  command.option("--pipeline", request.pipeline, "Stages of a pipeline")
      .showDefault()
      .check(range(1, kMostRanks))
      .needs(chosen);
}

int placeRanks(const hardware::Places& places, const schedule::PlacementRequest& request, bool json) {
  const hardware::Inventory inventory = hardware::discover(places);
  cluster::GPUTopology topology(inventory);
  if (Result<hardware::Capability> record = hardware::loadCapability(hardware::capabilityPath(inventory.node)); record)
    topology.setMeasured(record->links());
  std::vector<uint32_t> gpus;
  for (const hardware::Gpu& gpu : inventory.gpus) gpus.push_back(static_cast<uint32_t>(gpu.index));
  schedule::PlacementDevices devices;
  devices.addNode(inventory.node, gpus, topology, {});
  const Result<schedule::Placement> placement = schedule::place(devices, request);
  if (!placement) return fail(placement.status());
  if (json)
    std::printf("%s\n", placementJson(*placement).c_str());
  else
    print(*placement);
  return 0;
}

}  // namespace tracesmith::cli
