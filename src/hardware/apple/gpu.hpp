#pragma once

#include "hardware/drm/sources.hpp"

namespace tracesmith::hardware {

void describeApple(const std::string& root, const Card& card, Gpu& gpu);
Sensors appleSensors(const std::string& root, const Card& card);

}  // namespace tracesmith::hardware
