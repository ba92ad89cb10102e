#pragma once

#include "hardware/drm/sources.hpp"

namespace tracesmith::hardware {

void describeIntel(const std::string& root, const Card& card, Gpu& gpu);
Sensors intelSensors(const std::string& root, const Card& card);

}  // namespace tracesmith::hardware
