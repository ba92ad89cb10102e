// Who sends how much to whom in a collective, from the algorithm that ran.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

/// visit(from, to, bytes): members are ranks in the order of the communicator, `bytes` is the message of one rank.
/// An algorithm that is not known, or whose edges are not (PAT, CollNet), is drawn as NCCL's usual one: ring.
/// Nothing is visited where the edges depend on a root that is not known.
using EdgeVisitor = std::function<void(int64_t from, int64_t to, double bytes)>;
void eachEdge(OpKind op, std::string_view algo, const std::vector<int32_t>& members, int64_t root, double bytes,
              const EdgeVisitor& visit);

/// False for a rooted operation whose root is not one of the members: whom it sends to cannot be told.
bool drawsEdges(OpKind op, const std::vector<int32_t>& members, int64_t root);

/// Whether it is known which ranks exchange data when this operation runs by this algorithm, and from a known root.
bool knowsEdges(OpKind op, std::string_view algo);

/// ring, tree, butterfly, all_to_all or custom, from which cells of a matrix have traffic.
std::string_view patternOf(const std::vector<std::vector<uint64_t>>& bytes);

}  // namespace tracesmith::analysis
