// Statistics and a picture of the frames of a session (NAME.json, see frames.hpp).
#pragma once

#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// One measured quantity of one GPU over the session. NaN where it was not measured.
struct FrameSeries {
  std::vector<double> values;
  size_t measured = 0;
  double average = 0, least = 0, most = 0;  ///< of what was measured
  void settle();
};

struct FrameGpu {
  std::string id;
  FrameSeries util, memory;      ///< percent
  FrameSeries pcie, gpu_to_gpu;  ///< GB/s
};

struct FrameData {
  std::string session, start_time, end_time;
  std::vector<double> seconds;  ///< of each frame, since the first
  std::vector<FrameGpu> gpus;
};

Result<FrameData> readFrames(const std::string& path);
/// Draws utilisation and memory of every GPU over time, and bandwidths that were measured: .png, .pdf or .svg.
Status plotFrames(const FrameData& data, const std::string& path);

}  // namespace tracesmith::trace
