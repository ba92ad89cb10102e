#include "schedule/layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/text.hpp"

namespace tracesmith::schedule {

namespace {

bool amount(double value) { return std::isfinite(value) && value >= 0; }

Status check(const std::vector<LayerCost>& layers, const std::vector<Stage>& stages) {
  if (stages.empty() || layers.size() < stages.size())
    return Status::invalid(humanCount(layers.size()) + (layers.size() == 1 ? " layer" : " layers") +
                           " cannot be divided among " + std::to_string(stages.size()) +
                           " stages: each needs at least one");
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerCost& l = layers[i];
    if (!amount(l.time_s) || !amount(l.memory_bytes) || !amount(l.output_bytes))
      return Status::invalid("layer " + std::to_string(i) + ": time and sizes must be 0 or more");
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    if (!amount(stage.speed) || stage.speed == 0 || !amount(stage.memory_bytes) || !amount(stage.link_bytes_per_s))
      return Status::invalid("stage " + std::to_string(s) + ": the speed must be above 0, memory and link 0 or more");
  }
  return {};
}

}  // namespace

Result<LayerPartition> partitionLayers(const std::vector<LayerCost>& layers, const std::vector<Stage>& stages) {
  TS_TRY(check(layers, stages));
  const size_t n = layers.size(), count = stages.size();
  std::vector<double> time(n + 1, 0), memory(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    time[i + 1] = time[i] + layers[i].time_s;
    memory[i + 1] = memory[i] + layers[i].memory_bytes;
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // best[s][end]: the slowest of stages 0..s when they run the layers before `end`; from[s][end]: where stage s begins.
  std::vector<std::vector<double>> best(count, std::vector<double>(n + 1, kNever));
  std::vector<std::vector<size_t>> from(count, std::vector<size_t>(n + 1, 0));
  for (size_t s = 0; s < count; ++s) {
    const Stage& stage = stages[s];
    for (size_t end = s + 1; end + (count - 1 - s) <= n; ++end) {
      const bool sends = s + 1 < count && stage.link_bytes_per_s > 0;
      const double send_s = sends ? layers[end - 1].output_bytes / stage.link_bytes_per_s : 0;
      for (size_t begin = s; begin < end; ++begin) {
        if (s == 0 && begin != 0) break;
        if (stage.memory_bytes > 0 && memory[end] - memory[begin] > stage.memory_bytes) continue;
        const double own = (time[end] - time[begin]) / stage.speed + send_s;
        const double slowest = std::max(own, s == 0 ? 0 : best[s - 1][begin]);
        if (slowest < best[s][end]) {
          best[s][end] = slowest;
          from[s][end] = begin;
        }
      }
    }
  }
  if (!std::isfinite(best[count - 1][n]))
    return Status::exhausted("the model does not fit: no division of " + std::to_string(n) + " layers among " +
                             std::to_string(count) + " stages keeps to the memory of each");
  LayerPartition out;
  out.slowest_s = best[count - 1][n];
  out.layers.resize(count);
  for (size_t s = count, end = n; s-- > 0;) {
    out.layers[s] = static_cast<int64_t>(end - from[s][end]);
    end = from[s][end];
  }
  return out;
}

}  // namespace tracesmith::schedule
