// What nodes tell about themselves every second, and what the watcher says: declared in model/travel.def.
#pragma once

#include "model/travel.hpp"

namespace tracesmith::analysis::live {

using namespace model;

/// A communicator's name, as in the table `collectives`.
std::string commName(uint64_t comm);

}  // namespace tracesmith::analysis::live
