// The processes of this machine that matter to a job: on GPUs, under the probe, of Python.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "hardware/latest.hpp"
#include "model/travel.hpp"

namespace tracesmith::process {

/// Takes 0.2 s: between two looks at the processor time. By job, rank and number. `root`: before /proc. `recorded`:
/// those under the probe. `gpus`: what the drivers say, asked between the looks.
std::vector<model::ProcessEntry> list(const std::string& root, const std::vector<capture::ProcessNow>& recorded,
                                      const std::function<hardware::Latest::State()>& gpus);

}  // namespace tracesmith::process
