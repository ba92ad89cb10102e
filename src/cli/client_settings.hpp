// What a user need not type with every command that asks a master: from the environment and a file of theirs.
#pragma once

#include "cluster/api.hpp"

namespace tracesmith::cli {

/// The values that were not given as options: those of TRACESMITH_MASTER and TRACESMITH_TOKEN, else those of the file
/// $TRACESMITH_CONFIG (default: tracesmith/client.conf in $XDG_CONFIG_HOME or ~/.config). A file that cannot be read or
/// understood is an error; one that is not there is not, unless it was named.
Status addSettings(bool master_given, cluster::ClientOptions& options);

}  // namespace tracesmith::cli
