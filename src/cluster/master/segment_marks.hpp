// How far somebody outside has had what is stored: of each segment, the bytes from its beginning.
//
// A file with a line `<node> <epoch> <number> <bytes>` for each segment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "cluster/wire/segment.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cluster {

/// Not thread safe.
class SegmentMarks {
 public:
  /// `found`: whether there was a file.
  Status open(const std::string& path, bool& found);
  uint64_t of(const SegmentInfo& segment) const;
  void set(const SegmentInfo& segment, uint64_t bytes);
  /// Of a node, forgets the segments that keep() was not called for since the last time.
  void keep(const SegmentInfo& segment);
  void tidy(const std::string& node);
  Status save();

 private:
  struct Mark {
    uint64_t bytes = 0;
    bool kept = false;
  };
  using Key = std::tuple<std::string, std::string, uint32_t>;
  std::string path_;
  std::map<Key, Mark> marks_;
  bool changed_ = false;
};

}  // namespace tracesmith::cluster
