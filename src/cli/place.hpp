// tracesmith devices --place: which rank of a job on which GPU of this machine.
#pragma once

#include "cli/options.hpp"
#include "hardware/inventory.hpp"
#include "schedule/placement.hpp"

namespace tracesmith::cli {

struct PlaceOptions {
  bool place = false;
  schedule::PlacementRequest request;

  void add(Command& command);
};

/// Prints where the ranks belong, and what that gains.
int placeRanks(const hardware::Places& places, const schedule::PlacementRequest& request, bool json);

}  // namespace tracesmith::cli
