// Options of all commands that look at the hardware: where to look.
#pragma once

#include "cli/options.hpp"
#include "hardware/inventory.hpp"

namespace tracesmith::cli {

inline void addPlaces(Command& command, hardware::Places& places) {
  places = hardware::Places::fromEnvironment();
  command.option("--root", places.root, "Root of this machine's /sys, /proc and /dev; /host in a container")
      .type("DIR");
  command
      .option("--simulate", places.simulated_gpus,
              "Simulate this many GPUs instead of using this machine's; all output is marked as simulated")
      .type("GPUS")
      .check(range(1, 1024));
}

}  // namespace tracesmith::cli
