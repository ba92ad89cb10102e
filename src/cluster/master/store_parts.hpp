// What a Store is made of, for its own files.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/master/store.hpp"

namespace tracesmith::cluster {

constexpr const char* kDamagedEnding = ".damaged";

using Key = std::pair<std::string, uint32_t>;  // epoch and number

struct Store::Segment {
  SegmentInfo info;
  File file;             // open while it grows
  bool suspect = false;  // a sync failed: what is not durable may never get to the disk
};

struct Store::Node {
  mutable std::mutex mutex;  // guards what follows
  std::string folder;
  std::map<Key, Segment> segments;  // oldest first
  std::set<Key> removed;            // by retention, and the agent may not know
  std::vector<model::NodeLoss> losses;
  int64_t covered_ns = 0;
};

}  // namespace tracesmith::cluster
