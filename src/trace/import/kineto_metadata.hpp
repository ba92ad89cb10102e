// Members of a Kineto trace beside traceEvents: devices, the rank and its groups, and everything else as metadata.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/losses.hpp"
#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

class KinetoMetadata {
 public:
  KinetoMetadata(Writer& writer, RowSink& sink, Losses& losses) : writer_(writer), sink_(sink), losses_(losses) {}

  /// A member of the outermost object; `value` as written.
  void member(std::string_view key, std::string_view value);

  int64_t rank() const { return rank_; }
  int64_t worldSize() const { return world_size_; }
  const std::string& host() const { return host_; }  ///< empty: the source does not say
  int64_t baseNs() const { return base_ns_; }        ///< what an older `tracesmith export` took away from all times
  /// What all times count from, in ns since 1970; 0 if the file does not say. Some files say so at their end.
  int64_t epochNs() const { return epoch_ns_; }

  /// Rows of the devices, once per node: the inputs of one import mostly repeat them. `known` is shared by them.
  void writeDevices(const std::string& node, std::set<uint64_t>& known);

 private:
  struct Device {
    DeviceRow row;
    std::string args;
    uint64_t hash;  // of all that was said, to know it again
  };
  bool distributedInfo(std::string_view json);
  bool deviceProperties(std::string_view json);
  void row(std::string_view key, std::string_view value);

  Writer& writer_;
  RowSink& sink_;
  Losses& losses_;
  int64_t rank_ = kNull, world_size_ = kNull, base_ns_ = 0, epoch_ns_ = 0;
  std::string host_;
  std::vector<Device> devices_;
  size_t device_bytes_ = 0;
};

}  // namespace tracesmith::trace
