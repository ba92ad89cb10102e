// Our structs and the messages that carry them.
#pragma once

#include "cluster/api.hpp"
#include "tracesmith_cluster.pb.h"

namespace tracesmith::cluster {

namespace pb = ::tracesmith::cluster;

/// Everything that travels (model/travel.def). What comes from a message is bounded, whatever the message holds.
#define STRUCT(Name, Message, doc)                                \
  void toMessage(const model::Name& value, pb::Message& message); \
  model::Name fromMessage(const pb::Message& message);
#define STRUCT_OF(Name, Message, Base, doc) STRUCT(Name, Message, doc)
#define KEPT(Name, doc)
#define KEPT_OF(Name, Base, doc)
#include "model/travel.def"

void toMessage(const LiveEvent& event, pb::TraceEvent& message);
LiveEvent fromMessage(const pb::TraceEvent& message);

}  // namespace tracesmith::cluster
