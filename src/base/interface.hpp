// Sockets that use one network interface.
#pragma once

#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

/// Whether this machine has it.
Status checkInterface(const std::string& name);
/// What this socket sends goes out there. `family`: of its addresses. Empty: nothing is done.
Status bindToInterface(int socket, int family, const std::string& name);

}  // namespace tracesmith
