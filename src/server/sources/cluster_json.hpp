// Nodes and sessions as JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/text.hpp"
#include "cluster/api.hpp"

namespace tracesmith::server {

/// Times are texts of digits: they are beyond what a JavaScript number holds.
JsonWriter& timeField(JsonWriter& w, std::string_view key, int64_t ns);
/// null for 0.
JsonWriter& endField(JsonWriter& w, std::string_view key, int64_t ns);
/// The fields of nodes and sessions of the whole cluster, within an object.
void writeNodes(JsonWriter& w, const cluster::ClusterStatus& status);
void writeSessions(JsonWriter& w, const std::vector<cluster::SessionInfo>& sessions);

}  // namespace tracesmith::server
