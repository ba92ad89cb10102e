#pragma once

#include "hardware/drm/sources.hpp"

namespace tracesmith::hardware {

void describeQualcomm(const std::string& root, const Card& card, Gpu& gpu);
Sensors qualcommSensors(const std::string& root, const Card& card);

}  // namespace tracesmith::hardware
