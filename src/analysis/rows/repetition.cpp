#include "analysis/rows/repetition.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/statistics.hpp"

namespace tracesmith::analysis {
namespace {

// So many in a row are compared, not one: layers look alike, but what comes between forward and backward does not.
// More where four find nothing: the layers of a model whose parameters are gathered look alike in both.
constexpr size_t kInARow[] = {4, 16};
constexpr size_t kLeast = 3;               // repetitions
constexpr double kRegular = 0.75;          // of the distances are the usual one, and of the sequence is in such ones;
                                           // of the repetitions have what is usual
constexpr double kTolerance = 0.05;        // of a distance
constexpr double kLeastCovered = 1.0 / 3;  // of the sequence
constexpr double kLeastExplained = 0.4;    // of what comes again and again is in every repetition,
constexpr double kNearBest = 0.7;          // or this part of what the best length explains
constexpr size_t kLengths = 32;            // that are tried

/// A group of elements in a row that comes at regular distances.
struct Anchor {
  uint32_t group = 0;
  size_t first = 0;   // of its places, from which on it is regular
  size_t length = 0;  // distance
  double pause = 0;   // before it, as a rule
  double explained = 0;
};

class Finder {
 public:
  Finder(std::span<const uint64_t> symbols, std::span<const int64_t> times, size_t in_a_row) : times_(times) {
    const size_t n = symbols.size() < in_a_row ? 0 : symbols.size() - in_a_row + 1;
    groups_.resize(n);
    std::unordered_map<uint64_t, uint32_t> known;
    for (size_t i = 0; i < n; ++i) {
      uint64_t hash = 0;
      for (size_t k = 0; k < in_a_row; ++k) hash = combined(hash, symbols[i + k]);
      const auto [it, fresh] = known.try_emplace(hash, static_cast<uint32_t>(known.size()));
      if (fresh) hashes_.push_back(hash);
      groups_[i] = it->second;
    }
    begin_.assign(known.size() + 1, 0);
    for (uint32_t g : groups_) ++begin_[g + 1];
    for (size_t g = 1; g < begin_.size(); ++g) begin_[g] += begin_[g - 1];
    places_.resize(n);
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t i = 0; i < n; ++i) places_[next[groups_[i]]++] = i;
  }

  std::optional<Repetition> run(uint64_t first) {
    std::vector<Anchor> anchors;
    for (uint32_t g = 0; g + 1 < begin_.size(); ++g)
      if (Anchor a; regular(g, a)) anchors.push_back(a);
    std::vector<Anchor> tried = oneOfEachLength(anchors);
    double best = 0;
    for (Anchor& a : tried) best = std::max(best, a.explained = explainedBy(a));
    if (best < kLeastExplained) return {};
    const Anchor* chosen = nullptr;
    for (const Anchor& a : tried)
      if (a.explained >= kNearBest * best && (!chosen || a.length < chosen->length)) chosen = &a;
    // Of those as good, the one before which the sequence pauses longest.
    const Anchor* start = chosen;
    for (const Anchor& a : anchors) {
      if (!alike(a.length, chosen->length) || count(a) + 1 < count(*chosen)) continue;
      if (hashes_[a.group] == first) {
        start = &a;
        break;
      }
      if (a.pause > start->pause) start = &a;
    }
    Repetition out;
    out.first = hashes_[start->group];
    out.length = start->length;
    const std::span<const size_t> at = places(start->group).subspan(start->first);
    // Doubles within one repetition are not another one.
    for (size_t p : at)
      if (out.starts.empty() || 2 * (p - out.starts.back()) > out.length) out.starts.push_back(p);
    return out;
  }

 private:
  static bool alike(size_t a, size_t b) {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return std::abs(x - y) <= kTolerance * std::max(x, y);
  }
  std::span<const size_t> places(uint32_t g) const {
    return std::span(places_).subspan(begin_[g], begin_[g + 1] - begin_[g]);
  }
  size_t count(const Anchor& a) const { return places(a.group).size() - a.first; }

  /// Its distances are one and the same as a rule, seen from the end.
  bool regular(uint32_t g, Anchor& out) const {
    const std::span<const size_t> at = places(g);
    if (at.size() < kLeast) return false;
    std::vector<size_t> distances;
    for (size_t i = 1; i < at.size(); ++i) distances.push_back(at[i] - at[i - 1]);
    const auto half = static_cast<std::ptrdiff_t>(distances.size() / 2);
    out.group = g;
    out.length = median(std::vector<size_t>(distances.begin() + half, distances.end()));
    size_t good = 0, first = distances.size(), inside = 0;
    for (size_t i = distances.size(); i-- > 0;) {
      if (!alike(distances[i], out.length)) continue;
      ++good;
      inside += distances[i];
      // Layers of a backward pass repeat themselves, but the forward pass between them is as long.
      if (static_cast<double>(good) >= kRegular * static_cast<double>(distances.size() - i) &&
          static_cast<double>(inside) >= kRegular * static_cast<double>(at.back() - at[i]))
        first = i;
    }
    if (first + kLeast > at.size()) return false;
    out.first = first;
    std::vector<double> pauses;
    for (size_t i = first; i < at.size(); ++i)
      if (at[i] > 0) pauses.push_back(static_cast<double>(times_[at[i]] - times_[at[i] - 1]));
    out.pause = pauses.empty() ? 0 : median(std::move(pauses));
    const size_t covered = at.back() + out.length - at[first];
    return static_cast<double>(covered) >= kLeastCovered * static_cast<double>(groups_.size());
  }

  /// The one that is regular for longest.
  std::vector<Anchor> oneOfEachLength(const std::vector<Anchor>& all) const {
    std::map<size_t, std::pair<size_t, Anchor>> by_length;  // by the logarithm: how many there are, the best
    for (const Anchor& a : all) {
      auto& [votes, best] = by_length[static_cast<size_t>(std::log(static_cast<double>(a.length)) / kTolerance)];
      if (votes++ == 0 || count(a) > count(best)) best = a;
    }
    std::vector<std::pair<size_t, Anchor>> sorted;
    for (const auto& [key, value] : by_length) sorted.push_back(value);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Anchor> out;
    for (size_t i = 0; i < sorted.size() && i < kLengths; ++i) out.push_back(sorted[i].second);
    return out;
  }

  /// The part of all groups that come again and again which is in nearly every repetition.
  double explainedBy(const Anchor& anchor) const {
    const std::span<const size_t> at = places(anchor.group).subspan(anchor.first);
    std::vector<uint32_t> present(begin_.size() - 1, 0), last(begin_.size() - 1, UINT32_MAX);
    const uint32_t segments = static_cast<uint32_t>(at.size()) - 1;  // the last may be cut
    for (uint32_t s = 0; s < segments; ++s)
      for (size_t i = at[s]; i < at[s + 1]; ++i)
        if (last[groups_[i]] != s) {
          last[groups_[i]] = s;
          ++present[groups_[i]];
        }
    double all = 0, explained = 0;
    for (uint32_t g = 0; g < present.size(); ++g) {
      if (places(g).size() < kLeast) continue;
      ++all;
      explained += present[g] >= kRegular * segments;
    }
    return all > 0 ? explained / all : 0;
  }

  std::span<const int64_t> times_;
  std::vector<uint32_t> groups_;  // by place: which elements follow each other there
  std::vector<uint64_t> hashes_;  // by group
  std::vector<size_t> begin_, places_;
};

}  // namespace

std::optional<Repetition> findRepetition(std::span<const uint64_t> symbols, std::span<const int64_t> times,
                                         uint64_t first) {
  for (size_t in_a_row : kInARow)
    if (auto found = Finder(symbols, times, in_a_row).run(first)) return found;
  return {};
}

}  // namespace tracesmith::analysis
