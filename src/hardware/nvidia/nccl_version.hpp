// Which NCCL is installed on a machine, without loading it.
#pragma once

#include <string>

namespace tracesmith::hardware {

/// "2.21.5", from the names of its files in the system's folders, or of its Python package; the newest, empty: none
/// found. A job may bring another. `root` is before all paths: /host in a container.
std::string installedNccl(const std::string& root = "");

}  // namespace tracesmith::hardware
