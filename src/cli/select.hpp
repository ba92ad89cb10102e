// tracesmith devices --select: the best GPUs of this machine for some work.
#pragma once

#include <optional>
#include <string>

#include "cli/options.hpp"
#include "hardware/inventory.hpp"
#include "tracesmith/schedule/device_selector.hpp"

namespace tracesmith::cli {

struct SelectOptions {
  bool select = false;
  schedule::SelectionRequest request;

  void add(Command& command);
  /// Takes what was given into `request`. A failure is wrong usage.
  Status read();

 private:
  std::string min_memory_;
  double max_utilization_ = 0, max_temperature_ = 0;
  std::optional<Option> utilization_, temperature_;
};

/// Samples this machine until every GPU has told what it does, chooses and prints. Exit code 1 if fewer GPUs are
/// suitable than were asked for.
int selectDevices(const hardware::Places& places, const schedule::SelectionRequest& request, bool json);

}  // namespace tracesmith::cli
