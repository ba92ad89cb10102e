#include "analysis/collectives/comm_edges.hpp"

#include <algorithm>
#include <bit>

namespace tracesmith::analysis {

void eachEdge(OpKind op, std::string_view algo, const std::vector<int32_t>& m, int64_t root, double bytes,
              const EdgeVisitor& visit) {
  const size_t n = m.size();
  if (n < 2 || bytes <= 0 || !drawsEdges(op, m, root)) return;
  const auto count = static_cast<double>(n);
  auto ring = [&](double each) {
    for (size_t i = 0; i < n; ++i) visit(m[i], m[(i + 1) % n], each);
  };
  auto everyone = [&](double each) {
    for (int32_t a : m)
      for (int32_t b : m)
        if (a != b) visit(a, b, each);
  };
  auto tree = [&](bool up, bool down) {
    for (size_t i = 1; i < n; ++i) {
      if (up) visit(m[i], m[(i - 1) / 2], bytes);
      if (down) visit(m[(i - 1) / 2], m[i], bytes);
    }
  };
  const auto first = static_cast<size_t>(std::find(m.begin(), m.end(), root) - m.begin());  // of a rooted operation
  switch (op) {
    case OpKind::all_reduce:
      if (algo == "tree") return tree(true, true);
      if (algo.starts_with("nvls")) return everyone(bytes / count);
      return ring(2 * (count - 1) / count * bytes);
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      if (algo.starts_with("nvls")) return everyone(bytes);
      return ring((count - 1) * bytes);
    case OpKind::all_to_all:
      return everyone(bytes / count);
    case OpKind::broadcast:
    case OpKind::reduce:
      if (algo == "tree") return tree(op == OpKind::reduce, op == OpKind::broadcast);
      for (size_t i = 0; i + 1 < n; ++i) {
        const int32_t a = m[(first + i) % n], b = m[(first + i + 1) % n];
        op == OpKind::broadcast ? visit(a, b, bytes) : visit(b, a, bytes);
      }
      return;
    case OpKind::gather:
    case OpKind::scatter:
      for (size_t i = 0; i < n; ++i)
        if (i != first) op == OpKind::gather ? visit(m[i], m[first], bytes) : visit(m[first], m[i], bytes);
      return;
    case OpKind::send:
      return visit(m[0], m[1], bytes);
    default:
      return;
  }
}

bool drawsEdges(OpKind op, const std::vector<int32_t>& members, int64_t root) {
  return !model::isRooted(op) || std::find(members.begin(), members.end(), root) != members.end();
}

bool knowsEdges(OpKind op, std::string_view algo) {
  switch (op) {
    case OpKind::all_reduce:
    case OpKind::broadcast:
    case OpKind::reduce:
      return algo == "ring" || algo == "tree" || (op == OpKind::all_reduce && algo.starts_with("nvls"));
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      return algo == "ring" || algo.starts_with("nvls");
    default:
      return true;  // those that take part say who
  }
}

std::string_view patternOf(const std::vector<std::vector<uint64_t>>& bytes) {
  const size_t n = bytes.size();
  size_t edges = 0, next = 0, parents = 0, powers = 0;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < n; ++b) {
      if (a == b || bytes[a][b] == 0) continue;
      ++edges;
      next += b == (a + 1) % n;
      powers += std::has_single_bit(a ^ b);
      const size_t low = std::min(a, b), high = std::max(a, b);
      parents += low == (high - 1) / 2;
    }
  if (n < 2 || edges == 0) return "custom";
  if (edges == next && next == n) return "ring";
  if (n > 3 && edges == parents && edges >= n - 1) return "tree";
  if (n > 3 && std::has_single_bit(n) && edges == powers && edges == n * static_cast<size_t>(std::countr_zero(n)))
    return "butterfly";
  if (edges * 10 >= n * (n - 1) * 9) return "all_to_all";
  return "custom";
}

}  // namespace tracesmith::analysis
