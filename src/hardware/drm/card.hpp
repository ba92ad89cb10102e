// GPUs the kernel's DRM subsystem knows, whoever made them.
#pragma once

#include <string>
#include <vector>

namespace tracesmith::hardware {

struct Card {
  std::string name;    ///< card0
  std::string folder;  ///< …/sys/class/drm/card0
  std::string device;  ///< folder of the device: the PCI function, or a platform device
  std::string driver;  ///< amdgpu, i915, xe, msm, asahi, nvidia, …
  std::string pci;     ///< empty: not on PCI
  std::string hwmon;   ///< its folder of sensors; empty: none
};

/// In the order of their numbers; connectors (card0-HDMI-A-1) left out.
std::vector<Card> findCards(const std::string& root);

}  // namespace tracesmith::hardware
