// What is asked about the processes of this machine, answered.
#pragma once

#include <functional>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "hardware/latest.hpp"
#include "model/travel.hpp"

namespace tracesmith::process {

/// `recorded`: processes under the probe. `gpus`: what the drivers say; asked only if the processes are to be listed.
/// Without ranks and ids stacks are those of all processes of Python and under the probe.
model::NodeProcesses lookAt(const std::string& root, const model::ProcessQuery& query,
                            const std::vector<capture::ProcessNow>& recorded,
                            const std::function<hardware::Latest::State()>& gpus);

}  // namespace tracesmith::process
