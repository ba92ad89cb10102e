#include "tracesmith/analysis/comm_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "analysis/collectives/comm_edges.hpp"
#include "analysis/rows/trends.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

namespace {

constexpr double kSlow = 1.25;  // times as long as usual: a bottleneck
constexpr size_t kLeast = 4;    // transfers, to say so

/// Transfer times of one pair, in units of what is usual for such an operation, in the order of time.
struct Pair {
  std::vector<double> ratios;
};

}  // namespace

void CommMatrix::add(const CommOperation& operation) {
  world_size_ = std::max({world_size_, operation.world_size, operation.rank + 1});
  if (operation.peer) world_size_ = std::max(world_size_, static_cast<uint32_t>(*operation.peer) + 1);
  operations_.push_back(operation);
}

int64_t CommMatrix::Transfer::ns() const {
  int64_t last_start = INT64_MIN, last_end = INT64_MIN;
  for (const CommOperation& p : parts) {
    last_start = std::max(last_start, p.start_ns);
    last_end = std::max(last_end, p.end_ns);
  }
  return std::max<int64_t>(0, last_end - last_start);
}

/// Parts of one operation together; a send and its receive are the k-th of their pair.
std::vector<CommMatrix::Transfer> CommMatrix::transfers() const {
  struct Key {
    uint64_t comm, seq;
    int64_t from, to;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Transfer> found;
  std::map<std::tuple<uint64_t, int64_t, int64_t, bool>, uint64_t> order;
  for (const CommOperation& o : operations_) {
    Key key{o.comm, o.seq, -1, -1};
    const bool send = o.op == "send";
    if (send || o.op == "recv") {
      const int64_t peer = o.peer.value_or(-1);
      key.from = send ? o.rank : peer;
      key.to = send ? peer : o.rank;
      key.seq = order[{o.comm, key.from, key.to, send}]++;
    }
    found[key].parts.push_back(o);
  }
  std::vector<Transfer> out;
  for (auto& [key, transfer] : found) {
    std::sort(transfer.parts.begin(), transfer.parts.end(),
              [](const CommOperation& a, const CommOperation& b) { return a.rank < b.rank; });
    out.push_back(std::move(transfer));
  }
  std::stable_sort(out.begin(), out.end(), [](const Transfer& a, const Transfer& b) {
    return a.parts.front().start_ns < b.parts.front().start_ns;
  });
  return out;
}

namespace {

/// The edges of a transfer, also where only some of its ranks were seen.
template <typename Parts, typename Visit>
void edgesOf(const Parts& parts, Visit visit) {
  const CommOperation& first = parts.front();
  uint64_t bytes = 0;
  for (const CommOperation& p : parts) bytes = std::max(bytes, p.bytes);
  std::vector<int32_t> members;
  OpKind op = model::opKind(first.op);
  if (op == OpKind::send || op == OpKind::recv) {
    if (!first.peer) return;
    const auto self = static_cast<int32_t>(first.rank);
    members = op == OpKind::send ? std::vector{self, *first.peer} : std::vector{*first.peer, self};
    op = OpKind::send;
  } else {
    for (uint32_t r = 0; r < std::max<uint32_t>(first.world_size, static_cast<uint32_t>(parts.size())); ++r)
      members.push_back(static_cast<int32_t>(r));
  }
  eachEdge(op, first.algo, members, first.peer.value_or(-1), static_cast<double>(bytes), visit);
}

}  // namespace

CommMatrix::Cells CommMatrix::cells() const {
  Cells c;
  c.world_size = world_size_;
  const size_t n = world_size_;
  c.bytes.assign(n, std::vector<uint64_t>(n, 0));
  c.count = c.bytes;
  c.avg_latency.assign(n, std::vector<double>(n, 0));
  for (const Transfer& t : transfers())
    edgesOf(t.parts, [&](int64_t from, int64_t to, double bytes) {
      const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
      c.bytes[a][b] += static_cast<uint64_t>(std::llround(bytes));
      c.avg_latency[a][b] += static_cast<double>(t.ns()) / 1000;
      ++c.count[a][b];
    });
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < n; ++b)
      if (c.count[a][b] > 0) c.avg_latency[a][b] /= static_cast<double>(c.count[a][b]);
  return c;
}

std::string CommMatrix::pattern() const { return std::string(patternOf(cells().bytes)); }

std::vector<CommMatrix::Slow> CommMatrix::bottlenecks() const {
  const std::vector<Transfer> all = transfers();
  // What is usual: the median of operations of the same kind, size and number of ranks.
  using Class = std::tuple<std::string, uint64_t, uint32_t>;
  auto classOf = [](const Transfer& t) {
    const CommOperation& p = t.parts.front();
    return Class{p.op == "recv" ? "send" : p.op, p.bytes, p.world_size};
  };
  std::map<Class, std::vector<double>> times;
  for (const Transfer& t : all)
    if (t.ns() > 0) times[classOf(t)].push_back(static_cast<double>(t.ns()));
  std::map<Class, double> usual;
  for (auto& [key, values] : times) usual[key] = median(std::move(values));
  std::map<std::pair<int64_t, int64_t>, Pair> pairs;
  for (const Transfer& t : all) {
    if (t.ns() <= 0) continue;
    const double ratio = static_cast<double>(t.ns()) / usual[classOf(t)];
    edgesOf(t.parts, [&](int64_t from, int64_t to, double) { pairs[{from, to}].ratios.push_back(ratio); });
  }
  std::vector<double> medians;
  for (const auto& [key, pair] : pairs) medians.push_back(median(pair.ratios));
  const double peers = median(medians);
  std::vector<Slow> out;
  for (const auto& [key, pair] : pairs) {
    const std::vector<double>& r = pair.ratios;
    if (r.size() < kLeast) continue;
    const double own = median(r);
    char reason[160];
    if (pairs.size() >= 3 && own >= kSlow * peers) {
      std::snprintf(reason, sizeof reason, "transfers take %.2f times as long as those of its peers", own / peers);
      out.push_back({static_cast<uint32_t>(key.first), static_cast<uint32_t>(key.second), peers / own, reason});
      continue;
    }
    const auto half = static_cast<std::ptrdiff_t>(r.size() / 2);
    const double before = median({r.begin(), r.begin() + half}), after = median({r.begin() + half, r.end()});
    if (r.size() < 2 * kLeast || after < kSlow * before) continue;
    std::snprintf(reason, sizeof reason, "transfers take %.2f times as long as they did before", after / before);
    out.push_back({static_cast<uint32_t>(key.first), static_cast<uint32_t>(key.second), before / after, reason});
  }
  std::stable_sort(out.begin(), out.end(), [](const Slow& a, const Slow& b) { return a.utilization < b.utilization; });
  return out;
}

std::vector<CommMatrix::Load> CommMatrix::loads() const {
  std::vector<Load> out(world_size_);
  for (uint32_t r = 0; r < world_size_; ++r) out[r] = {r, 0, 0, 0};
  const Cells c = cells();
  for (size_t a = 0; a < world_size_; ++a)
    for (size_t b = 0; b < world_size_; ++b) out[a].total_bytes += c.bytes[a][b];
  double sum = 0, count = 0;
  std::vector<bool> seen(world_size_, false);
  for (const CommOperation& o : operations_) {
    out[o.rank].total_time_ns += static_cast<uint64_t>(std::max<int64_t>(0, o.end_ns - o.start_ns));
    count += seen[o.rank] ? 0 : 1;
    seen[o.rank] = true;
  }
  for (const Load& l : out) sum += static_cast<double>(l.total_time_ns);
  const double mean = count > 0 ? sum / count : 0;
  for (Load& l : out)
    if (seen[l.rank] && mean > 0) l.deviation = static_cast<double>(l.total_time_ns) / mean - 1;
  return out;
}

std::string matrixAscii(const std::vector<std::vector<uint64_t>>& bytes) {
  constexpr size_t kMost = 32;
  static constexpr const char* kShades[] = {"·", "░", "▒", "▓", "█"};
  const size_t n = bytes.size();
  if (n == 0) return "no communication\n";
  const size_t each = (n + kMost - 1) / kMost, side = (n + each - 1) / each;
  std::vector<std::vector<double>> cells(side, std::vector<double>(side, 0));
  double most = 0;
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < n; ++b) cells[a / each][b / each] += static_cast<double>(bytes[a][b]);
  for (const auto& row : cells)
    for (double v : row) most = std::max(most, v);
  std::string out = "from \\ to";
  if (each > 1) out += " (a cell is " + std::to_string(each) + " × " + std::to_string(each) + " ranks)";
  out += "\n";
  for (size_t a = 0; a < side; ++a) {
    char label[16];
    std::snprintf(label, sizeof label, "%5zu ", a * each);
    out += label;
    for (size_t b = 0; b < side; ++b) {
      const double v = cells[a][b];
      const int shade = v <= 0 ? 0 : std::clamp(static_cast<int>(std::ceil(4 * v / most)), 1, 4);
      out += kShades[shade];
      out += kShades[shade];
    }
    out += "\n";
  }
  return out + "      █ " + humanBytes(static_cast<uint64_t>(most)) + ", · nothing\n";
}

}  // namespace tracesmith::analysis
