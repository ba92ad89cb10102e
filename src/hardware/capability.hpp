// What a node can really do: measured by `tracesmith bench`, kept as a file, declared or overridden by nodes.yaml.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::hardware {

/// One figure with its spread.
struct Figure {
  std::string name;  ///< "cpu_gflops", "gpu_matrix_tflops", "link_gbps"
  std::string unit;
  std::string part;  ///< "gpu 0", "gpu 0 bf16", "0-1"; empty: the node
  double median = 0, low = 0, high = 0;
  int repetitions = 0;   ///< 0: declared, not measured
  std::string how = {};  ///< one sentence
};

struct Capability {
  std::string node, measured_at;  ///< "2026-11-15T08:30:00Z"
  std::vector<Figure> figures;
  std::vector<std::string> notes;  ///< what was not measured, and why

  const Figure* find(const std::string& name, const std::string& part = "") const;
  /// Puts the figure in the place of one of the same name and part.
  void set(Figure figure);
  /// GB/s of ordered pairs of GPUs.
  std::map<std::pair<uint32_t, uint32_t>, double> links() const;
};

/// $TRACESMITH_DATA (or ./tracesmith-data)/nodes/<node>.json
std::string capabilityPath(const std::string& node);
Result<Capability> loadCapability(const std::string& path);
Status saveCapability(const std::string& path, const Capability& capability);
std::string capabilityJson(const Capability& capability);

/// Figures nodes.yaml declares for a node, over those measured:
///   nodes:
///     - name: node-a          # or "*": every node
///       capabilities:
///         cpu_gflops: 900
///         gpu_matrix_tflops: {gpu 0 bf16: 640}
Status applyNodesYaml(const std::string& path, Capability& capability);

}  // namespace tracesmith::hardware
