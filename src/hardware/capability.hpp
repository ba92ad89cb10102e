// What a node can really do: measured by `tracesmith bench`, kept as a file, declared or overridden by nodes.yaml.
#pragma once

#include <map>
#include <optional>
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

/// A node, or with the name "*" every node, as nodes.yaml declares it:
///   nodes:
///     - name: node-a
///       address: node-a:50052   # of its agent
///       price_per_hour: 32.80
///       capabilities:
///         cpu_gflops: 900
///         gpu_matrix_tflops: {gpu 0 bf16: 640}
struct DeclaredNode {
  std::string name, address;             ///< no address: the agent comes by itself
  std::optional<double> price_per_hour;  ///< absent: not known
  std::vector<Figure> figures;           ///< without units
};

/// What is wrong in the file is said with its line.
Result<std::vector<DeclaredNode>> loadNodesYaml(const std::string& path);

/// The figures that are declared for the node, over those measured.
void applyDeclared(const std::vector<DeclaredNode>& nodes, Capability& capability);
Status applyNodesYaml(const std::string& path, Capability& capability);

}  // namespace tracesmith::hardware
