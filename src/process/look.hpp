// What is asked about the processes of this machine, answered.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "hardware/latest.hpp"
#include "model/travel.hpp"

namespace tracesmith::process {

/// Whose stacks a query asks for: its ids, or else all processes of Python and under the probe, of its ranks if it
/// names some. `refused` counts those of Python that may not be read.
std::vector<pid_t> chosen(const std::string& root, const model::ProcessQuery& query,
                          const std::vector<capture::ProcessNow>& recorded, size_t& refused);

/// `recorded`: processes under the probe. `gpus`: what the drivers say; asked only if the processes are to be listed.
/// Without ranks and ids stacks are those of all processes of Python and under the probe. `stop`: sampling ends when it
/// is set.
model::NodeProcesses lookAt(const std::string& root, const model::ProcessQuery& query,
                            const std::vector<capture::ProcessNow>& recorded,
                            const std::function<hardware::Latest::State()>& gpus,
                            const std::atomic<bool>* stop = nullptr);

}  // namespace tracesmith::process
