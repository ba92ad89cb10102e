#include "hardware/node/drm_gpus.hpp"

#include "hardware/amd/gpu.hpp"
#include "hardware/apple/gpu.hpp"
#include "hardware/drm/card.hpp"
#include "hardware/drm/sources.hpp"
#include "hardware/intel/gpu.hpp"
#include "hardware/qualcomm/gpu.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

/// Which vendor's file describes the card; null: none of ours.
struct Vendor {
  const char* driver;
  const char* name;
  void (*describe)(const std::string& root, const Card& card, Gpu& gpu);
  Sensors (*sensors)(const std::string& root, const Card& card);
};

constexpr Vendor kVendors[] = {
    {"amdgpu", "amd", describeAmd, amdSensors},
    {"i915", "intel", describeIntel, intelSensors},
    {"xe", "intel", describeIntel, intelSensors},
    {"msm", "qualcomm", describeQualcomm, qualcommSensors},
    {"msm_dpu", "qualcomm", describeQualcomm, qualcommSensors},
    {"asahi", "apple", describeApple, appleSensors},
};

const Vendor* vendorOf(const Card& card) {
  for (const Vendor& v : kVendors)
    if (card.driver == v.driver) return &v;
  return nullptr;
}

/// "16.0 GT/s PCIe" → 4.
int64_t generation(const std::optional<std::string>& speed) {
  if (!speed) return kUnknown;
  static constexpr std::pair<const char*, int64_t> kSpeeds[] = {{"2.5 ", 1}, {"5.0 ", 2},  {"5 ", 2},  {"8.0 ", 3},
                                                                {"8 ", 3},   {"16.0 ", 4}, {"16 ", 4}, {"32.0 ", 5},
                                                                {"32 ", 5},  {"64.0 ", 6}};
  for (const auto& [text, g] : kSpeeds)
    if (speed->starts_with(text)) return g;
  return kUnknown;
}

}  // namespace

std::vector<Card> findCards(const std::string& root) {
  std::vector<Card> cards;
  for (const std::string& name : listFolder(root + "/sys/class/drm")) {
    if (!name.starts_with("card") || name.find('-') != std::string::npos) continue;
    Card card;
    card.name = name;
    card.folder = root + "/sys/class/drm/" + name;
    card.device = card.folder + "/device";
    card.driver = linkTarget(card.device + "/driver").value_or("");
    if (std::optional<std::string> uevent = readText(card.device + "/uevent")) {
      std::string_view rest = *uevent;
      while (!rest.empty()) {
        std::string_view line = nextLine(rest);
        if (line.starts_with("PCI_SLOT_NAME=")) card.pci = std::string(line.substr(14));
        if (card.driver.empty() && line.starts_with("DRIVER=")) card.driver = std::string(line.substr(7));
      }
    }
    for (const std::string& hwmon : listFolder(card.device + "/hwmon")) card.hwmon = card.device + "/hwmon/" + hwmon;
    cards.push_back(std::move(card));
  }
  return cards;
}

void findDrm(const std::string& root, Inventory& inventory) {
  for (const Card& card : findCards(root)) {
    const Vendor* vendor = vendorOf(card);
    if (!vendor) continue;
    Gpu gpu;
    gpu.index = static_cast<int32_t>(inventory.gpus.size());
    gpu.vendor = vendor->name;
    gpu.driver = card.driver;
    gpu.pci = card.pci;
    gpu.numa = readNumber(card.device + "/numa_node").value_or(kUnknown);
    gpu.cpus = readText(card.device + "/local_cpulist").value_or("");
    gpu.pcie_generation = generation(readText(card.device + "/max_link_speed"));
    gpu.pcie_generation_now = generation(readText(card.device + "/current_link_speed"));
    gpu.pcie_lanes = readNumber(card.device + "/max_link_width").value_or(kUnknown);
    gpu.pcie_lanes_now = readNumber(card.device + "/current_link_width").value_or(kUnknown);
    vendor->describe(root, card, gpu);
    if (gpu.name.empty()) gpu.name = gpu.vendor + " " + readText(card.device + "/device").value_or(card.name);
    inventory.gpus.push_back(std::move(gpu));
  }
}

std::unique_ptr<Source> drmSource(const std::string& root, const Gpu& gpu) {
  for (const Card& card : findCards(root)) {
    const Vendor* vendor = vendorOf(card);
    if (vendor && vendor->name == gpu.vendor && card.pci == gpu.pci)
      return sensorSource(root, gpu, card, vendor->sensors(root, card));
  }
  return nullptr;
}

}  // namespace tracesmith::hardware
