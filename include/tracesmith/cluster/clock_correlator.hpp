// Relates clocks by points measured on both: a device's or another machine's clock to the one taken as reference.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

/// Thread safe.
class TRACESMITH_API ClockCorrelator {
 public:
  /// The source's clock showed source_time when the reference showed reference_time. The last 4096 points are kept.
  void addCorrelationPoint(const std::string& source_id, Timestamp source_time, Timestamp reference_time);

  /// reference − source, ns, at the last point; 0 for an unknown source.
  int64_t calculateOffset(const std::string& source_id) const;

  /// Moves the events from the source's clock to the reference. Events of an unknown source are not changed.
  void correctTimestamps(const std::string& source_id, std::vector<TraceEvent>& events) const;

  struct DriftModel {
    double offset = 0;      ///< ns, at the first point kept
    double drift_rate = 0;  ///< ns per second
    double r_squared = 0;   ///< how much of the change of the offset the drift explains, 0…1
    bool valid = false;     ///< false: fewer than two points
  };
  /// Least squares, without outliers.
  DriftModel calculateDriftModel(const std::string& source_id) const;

 private:
  struct CorrelationPoint {
    Timestamp source_time, reference_time;
  };
  DriftModel modelLocked(const std::vector<CorrelationPoint>& points) const;

  mutable std::mutex mutex_;  // guards correlation_data_
  std::map<std::string, std::vector<CorrelationPoint>> correlation_data_;
};

}  // namespace tracesmith::cluster
