#pragma once

#include "hardware/drm/sources.hpp"

namespace tracesmith::hardware {

void describeAmd(const std::string& root, const Card& card, Gpu& gpu);
Sensors amdSensors(const std::string& root, const Card& card);

}  // namespace tracesmith::hardware
