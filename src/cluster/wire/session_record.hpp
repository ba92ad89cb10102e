// A session as the master keeps it: an interval of the one stored stream.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tracesmith::cluster {

struct SessionRecord {
  std::string id, name;
  int64_t start_ns = 0, end_ns = 0;  // reference clock; end 0: still recording
  uint32_t freq_ms = 0;
  uint64_t max_bytes = 0;  // retention; 0: no limit
  double max_age_s = 0;
  std::vector<std::string> nodes;                   // those it waits for
  std::vector<std::pair<int64_t, int64_t>> pauses;  // between a stop and a resume: not part of it
  uint64_t removed_rows = 0;                        // by retention
  bool complete = false;                            // everything is here; does not change any more
};

}  // namespace tracesmith::cluster
