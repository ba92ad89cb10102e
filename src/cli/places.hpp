// Options of all commands that look at the hardware: where to look.
#pragma once

#include <CLI/CLI.hpp>

#include "hardware/inventory.hpp"

namespace tracesmith::cli {

inline void addPlaces(CLI::App& command, hardware::Places& places) {
  places = hardware::Places::fromEnvironment();
  command.add_option("--root", places.root, "Where this machine's /sys, /proc and /dev are: /host in a container")
      ->type_name("DIR");
  command
      .add_option("--simulate", places.simulated_gpus,
                  "Simulated GPUs instead of those of this machine, marked as simulated everywhere")
      ->type_name("GPUS")
      ->check(CLI::Range(1, 1024));
}

}  // namespace tracesmith::cli
