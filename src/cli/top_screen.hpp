// One picture of the node for a terminal: `tracesmith top`.
#pragma once

#include <string>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "hardware/latest.hpp"
#include "hardware/process.hpp"

namespace tracesmith::cli {

enum class TopSort { memory, gpu, pid, rank, user };

constexpr int64_t kFreshNs = 5'000'000'000;  ///< what is older is not shown

struct TopProcess {
  hardware::ProcessInfo info;
  int32_t gpu = -1;  ///< -1: it uses none
  double bytes = 0;  ///< NaN: not known
  std::string role;  ///< of a process under the probe; empty: nobody said
  bool simulated = false;
  std::optional<capture::TrainingNow::Step> step;
  model::Rates rates;
};

struct TopView {
  size_t width = 80, height = 24;
  bool whole = false;  ///< all there is, on as many lines as it needs, without keys
  bool color = true;
  TopSort sort = TopSort::memory;
  int scroll = 0;  ///< first GPU or process line to show, where there are too many
};

/// Processes on GPUs that were seen within the last seconds, and those under the probe.
std::vector<TopProcess> topProcesses(const hardware::Latest::State& state, const std::string& root,
                                     const std::vector<capture::ProcessNow>& recorded);
/// A heading and a line for each.
std::vector<std::string> processLines(const std::vector<TopProcess>& processes, const TopView& view);
/// Lines of at most `width` characters, at most `height` of them.
std::vector<std::string> topLines(const hardware::Latest::State& state, std::vector<TopProcess> processes,
                                  const TopView& view);
std::string topJson(const hardware::Latest::State& state, const std::vector<TopProcess>& processes);

}  // namespace tracesmith::cli
