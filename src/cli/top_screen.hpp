// One picture of the node for a terminal: `tracesmith top`.
#pragma once

#include <string>
#include <vector>

#include "hardware/latest.hpp"
#include "hardware/process.hpp"

namespace tracesmith::cli {

enum class TopSort { memory, gpu, pid, rank, user };

struct TopProcess {
  hardware::ProcessInfo info;
  int32_t gpu = -1;
  double bytes = 0;  ///< NaN: not known
};

struct TopView {
  size_t width = 80, height = 24;
  bool color = true;
  TopSort sort = TopSort::memory;
  int scroll = 0;  ///< first GPU or process line to show, where there are too many
};

/// Processes on GPUs that were seen within the last seconds.
std::vector<TopProcess> topProcesses(const hardware::Latest::State& state, const std::string& root);
/// Lines of at most `width` characters, at most `height` of them.
std::vector<std::string> topLines(const hardware::Latest::State& state, std::vector<TopProcess> processes,
                                  const TopView& view);
std::string topJson(const hardware::Latest::State& state, const std::vector<TopProcess>& processes);

}  // namespace tracesmith::cli
