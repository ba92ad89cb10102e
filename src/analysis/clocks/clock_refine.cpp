#include "analysis/clocks/clock_refine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "base/statistics.hpp"
#include "sync/clock_limits.hpp"

namespace tracesmith::analysis {
namespace {

using sync::Differences;
using sync::LineLimits;
using sync::Range;
using trace::ClockModel;

constexpr double kStampError = 1000;         // ns: GPU times are put on the node's clock with about this error
constexpr double kMaxSlope = 200e-6;         // what is left of a drift after the model of the trace
constexpr int64_t kWindow = 60'000'000'000;  // a clock's rate is even for a minute
constexpr int64_t kMostWindows = 64;
constexpr double kShort = 5e9;  // in less, microseconds say nothing about a rate
constexpr size_t kMostObservations = 4'000'000;
constexpr size_t kAllPairs = 64;  // up to so many domains every pair is looked at
constexpr size_t kLimitsOfPair = 64;
constexpr size_t kSamples = 200;

/// What one domain saw of one collective: last start, first and median end, raw clock.
struct Seen {
  uint32_t domain;
  int64_t last_start, first_end, median_end;
};
struct Observation {
  int64_t reference;  // by the trace's models, to sort it into a window
  std::vector<Seen> seen;
};

struct Line {
  double offset = 0, slope = 0;
  double at(double t) const { return offset + slope * t; }
};

/// Median slope, median offset.
Line robustLine(const std::vector<std::pair<double, double>>& all, double span) {
  std::vector<std::pair<double, double>> points;
  const size_t n = std::min(all.size(), kSamples);
  for (size_t i = 0; i < n; ++i) points.push_back(all[i * all.size() / n]);
  std::vector<double> slopes, rest;
  for (size_t i = 0; i < n; ++i)
    for (size_t k = i + 1; k < n; ++k)
      if (const double dt = points[k].first - points[i].first; dt > span / 4)
        slopes.push_back((points[k].second - points[i].second) / dt);
  Line line;
  if (slopes.size() >= 10 && span >= kShort) line.slope = median(std::move(slopes));
  for (const auto& [t, value] : points) rest.push_back(value - line.slope * t);
  line.offset = median(std::move(rest));
  return line;
}

std::vector<Observation> observe(const PartTable& table, const trace::Clocks& clocks) {
  size_t wanted = 0;
  for (const Instance& in : table.instances)
    if (endsTogether(in.op)) wanted += in.count;
  const size_t stride = std::max<size_t>(1, wanted / kMostObservations);
  std::vector<Observation> out;
  std::vector<std::vector<int64_t>> ends(table.domains.size());
  for (size_t i = 0; i < table.instances.size(); i += stride) {
    const Instance& in = table.instances[i];
    if (!endsTogether(in.op) || in.count < 2 || !in.possible) continue;
    Observation o;
    for (uint32_t k = 0; k < in.count; ++k) {
      const Part& p = table.parts[table.order[in.first + k]];
      const uint32_t d = table.domain_of.at(p.process);
      auto it = std::find_if(o.seen.begin(), o.seen.end(), [&](const Seen& s) { return s.domain == d; });
      if (it == o.seen.end()) {
        o.seen.push_back({d, p.ts, p.end, 0});
        ends[d].clear();
      } else {
        it->last_start = std::max(it->last_start, p.ts);
        it->first_end = std::min(it->first_end, p.end);
      }
      ends[d].push_back(p.end);
    }
    if (o.seen.size() < 2) continue;
    for (Seen& s : o.seen) s.median_end = median(ends[s.domain]);
    o.reference = clockOf(clocks, table.domains[o.seen[0].domain]).toReference(o.seen[0].median_end);
    out.push_back(std::move(o));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.reference < b.reference; });
  return out;
}

/// Limits of pairs of domains: of all, or, where they are many, of those a power of two apart, so that everybody is a
/// few steps from everybody.
class PairLimits {
 public:
  explicit PairLimits(size_t domains)
      : n_(domains), width_(domains <= kAllPairs ? domains : 32), limits_(n_ * width_) {}

  /// Of a < b; null: this pair is not looked at.
  LineLimits* of(uint32_t a, uint32_t b) {
    const uint32_t apart = b - a;
    if (n_ <= kAllPairs) return &limits_[a * width_ + b];
    return std::has_single_bit(apart) ? &limits_[a * width_ + static_cast<size_t>(std::countr_zero(apart))] : nullptr;
  }
  void thin(double length) {
    for (LineLimits& l : limits_) l.thin(0, length, kLimitsOfPair);
  }
  /// visit(a, b, limits) for every pair with a limit, until it says false.
  template <typename Visit>
  void each(Visit visit) const {
    for (size_t i = 0; i < limits_.size(); ++i) {
      const size_t a = i / width_, b = n_ <= kAllPairs ? i % width_ : a + (size_t{1} << i % width_);
      if (!limits_[i].empty() && !visit(a, b, limits_[i])) return;
    }
  }

 private:
  const size_t n_, width_;
  std::vector<LineLimits> limits_;
};

/// One stretch of time in which every clock is a straight line.
class Window {
 public:
  Window(const PartTable& table, const trace::Clocks& clocks, size_t anchor, int64_t from, int64_t to)
      : table_(table),
        clocks_(clocks),
        anchor_(anchor),
        from_(from),
        to_(to),
        length_(static_cast<double>(to - from)),
        pairs_(table.domains.size()) {}

  /// False: the clocks of the trace or the collectives cannot be; `faults` says so.
  bool solve(std::span<const Observation> seen, std::vector<std::string>& faults);

  /// What is known now of a domain against the anchor.
  ClockModel model(size_t domain) const;
  double bound(size_t domain) const;
  /// The bound by the models of the trace.
  double boundBefore(size_t domain) const;

 private:
  struct Base {
    int64_t raw;  // the domain's clock at the start of the window, by the trace's model
    int64_t offset_ns;
    double drift;
    // Time since the start of the window.
    double at(int64_t ts) const { return static_cast<double>(ts - raw) * (1 + drift); }
  };
  void takeModels();
  void takePairs(std::span<const Observation> seen);
  void estimate(std::span<const Observation> seen);
  std::optional<Differences> differences(double t, std::vector<std::string>& faults) const;

  const PartTable& table_;
  const trace::Clocks& clocks_;
  const size_t anchor_;
  const int64_t from_, to_;
  const double length_;
  std::vector<Base> base_;
  // x of a domain is what its base line is off.
  std::vector<LineLimits> given_;  // by domain: of x, by the models of the trace
  std::vector<double> given_bound_;
  PairLimits pairs_;         // of x of the second − x of the first
  std::vector<Line> lines_;  // estimates of x, by domain
  // At both ends, by domain: x − x of the anchor.
  std::vector<Range> first_, last_;
  std::vector<double> estimate_first_, estimate_last_;
};

void Window::takeModels() {
  const int64_t middle = from_ + (to_ - from_) / 2;
  for (const std::string& domain : table_.domains) {
    const trace::ClockTable& clock = clockOf(clocks_, domain);
    const std::vector<ClockModel>& models = clock.models();
    const int64_t raw_middle = clock.toRaw(middle);
    // The line of the model in force in the middle, carried to the start.
    const ClockModel* force = clock.inForce(raw_middle);
    const double drift = force ? force->drift_ppm * 1e-6 : 0;
    const int64_t raw = raw_middle - std::llround(static_cast<double>(middle - from_) / (1 + drift));
    base_.push_back({raw, from_ - raw, drift});
    LineLimits limits;
    double worst = models.empty() ? INFINITY : 0;
    for (size_t i = 0; i < models.size(); ++i) {
      const ClockModel& m = models[i];
      const int64_t end_raw = i + 1 < models.size() ? models[i + 1].at_ns : INT64_MAX;
      const int64_t last_raw = base_.back().raw + std::llround(length_ / (1 + drift));
      if (end_raw <= raw && i + 1 < models.size()) continue;
      if (m.at_ns > last_raw && i > 0) break;
      if (!m.valid() || clock.refined()) {
        worst = INFINITY;
        continue;
      }
      const int64_t at = std::clamp(m.at_ns, raw, last_raw);
      const double given = static_cast<double>(clock.toReference(at) - from_);
      const double x = given - base_.back().at(at), bound = static_cast<double>(m.bound_ns);
      limits.atMost(base_.back().at(at), x + bound);
      limits.atLeast(base_.back().at(at), x - bound);
      worst = std::max(worst, bound);
    }
    limits.thin(0, length_, kLimitsOfPair);
    given_.push_back(std::move(limits));
    given_bound_.push_back(worst);
  }
}

void Window::takePairs(std::span<const Observation> seen) {
  size_t since = 0;
  for (const Observation& o : seen) {
    for (size_t i = 0; i < o.seen.size(); ++i)
      for (size_t k = 0; k < o.seen.size(); ++k) {
        const Seen &a = o.seen[i], &b = o.seen[k];
        if (a.domain >= b.domain) continue;
        LineLimits* limits = pairs_.of(a.domain, b.domain);
        if (!limits) continue;
        const Base &base_a = base_[a.domain], &base_b = base_[b.domain];
        const double t = base_a.at(a.median_end);
        limits->atMost(t, base_a.at(a.first_end) - base_b.at(b.last_start) + kStampError);
        limits->atLeast(t, base_a.at(a.last_start) - base_b.at(b.first_end) - kStampError);
      }
    if (++since == 4 * kLimitsOfPair) {
      pairs_.thin(length_);
      since = 0;
    }
  }
  pairs_.thin(length_);
}

void Window::estimate(std::span<const Observation> seen) {
  const size_t n = table_.domains.size();
  lines_.assign(n, {});
  std::vector<std::vector<std::pair<double, double>>> rest(n);
  std::vector<double> ends;
  for (int round = 0; round < 8; ++round) {
    for (auto& r : rest) r.clear();
    for (const Observation& o : seen) {
      ends.clear();
      for (const Seen& s : o.seen) {
        const double t = base_[s.domain].at(s.median_end);
        ends.push_back(t + lines_[s.domain].at(t));
      }
      const double together = median(ends);
      for (size_t i = 0; i < o.seen.size(); ++i)
        rest[o.seen[i].domain].push_back({base_[o.seen[i].domain].at(o.seen[i].median_end), together - ends[i]});
    }
    double moved = 0;
    for (size_t d = 0; d < n; ++d) {
      if (rest[d].empty()) continue;
      const Line line = robustLine(rest[d], length_);
      lines_[d].offset += line.offset;
      lines_[d].slope += line.slope;
      moved = std::max({moved, std::abs(line.at(0)), std::abs(line.at(length_))});
    }
    if (moved < 100) break;
  }
}

std::optional<Differences> Window::differences(double t, std::vector<std::string>& faults) const {
  const size_t n = table_.domains.size();
  Differences all(n + 1);  // the last is the reference
  for (size_t d = 0; d < n; ++d) {
    const std::optional<Range> range = given_[d].at(t, kMaxSlope);
    if (!range) {
      faults.push_back("the clock of " + table_.domains[d] + " was set or changed its rate");
      return std::nullopt;
    }
    all.atMost(n, d, range->high);
    all.atMost(d, n, -range->low);
  }
  const size_t faults_before = faults.size();
  pairs_.each([&](size_t a, size_t b, const LineLimits& limits) {
    const std::optional<Range> range = limits.at(t, kMaxSlope);
    if (!range) {
      faults.push_back("the collectives of " + table_.domains[a] + " and " + table_.domains[b] +
                       " contradict each other for any clocks: one of the clocks was set in between");
      return false;
    }
    all.atMost(a, b, range->high);
    all.atMost(b, a, -range->low);
    return true;
  });
  if (faults.size() > faults_before) return std::nullopt;
  if (all.close()) return all;
  // Who is it? A pair whose collectives do not go with the clocks of the trace.
  pairs_.each([&](size_t i, size_t k, const LineLimits& limits) {
    const Range a = *given_[i].at(t, kMaxSlope), b = *given_[k].at(t, kMaxSlope);
    const Range both = *limits.at(t, kMaxSlope);
    const double over = std::max(both.low - (b.high - a.low), (b.low - a.high) - both.high);
    if (over <= 0) return true;
    faults.push_back(
        "the clocks of " + table_.domains[i] + " and " + table_.domains[k] + " are at least " +
        std::to_string(std::llround(over / 1000)) +
        " µs further apart than their bounds allow: a rank would leave a collective before the last one arrived");
    return false;
  });
  if (faults.size() == faults_before) faults.push_back("the clocks of the trace contradict its collectives");
  return std::nullopt;
}

bool Window::solve(std::span<const Observation> seen, std::vector<std::string>& faults) {
  takeModels();
  takePairs(seen);
  estimate(seen);
  const size_t n = table_.domains.size();
  for (const bool at_end : {false, true}) {
    const double t = at_end ? length_ : 0;
    const std::optional<Differences> all = differences(t, faults);
    if (!all) return false;
    std::vector<Range>& ranges = at_end ? last_ : first_;
    std::vector<double>& estimates = at_end ? estimate_last_ : estimate_first_;
    for (size_t d = 0; d < n; ++d) {
      const Range r = d == anchor_ ? Range{0, 0} : all->range(anchor_, d);
      ranges.push_back(r);
      const double guess = lines_[d].at(t) - lines_[anchor_].at(t);
      // Within the limits, and never so near to one that the bound is worse than the trace's own.
      const double known = std::max(given_bound_[d] + given_bound_[anchor_], (r.high - r.low) / 2);
      const double low = std::max(r.low, r.high - known);
      const double high = std::max(low, std::min(r.high, r.low + known));  // rounding may bring them past each other
      estimates.push_back(std::isfinite(r.low) && std::isfinite(r.high) ? std::clamp(guess, low, high) : guess);
    }
  }
  return true;
}

double Window::boundBefore(size_t d) const { return d == anchor_ ? 0 : given_bound_[d] + given_bound_[anchor_]; }

double Window::bound(size_t d) const {
  return std::max({first_[d].high - estimate_first_[d], estimate_first_[d] - first_[d].low,
                   last_[d].high - estimate_last_[d], estimate_last_[d] - last_[d].low}) +
         (d == anchor_ ? 0 : sync::kWander * length_ / 2);
}

ClockModel Window::model(size_t d) const {
  const Base& base = base_[d];
  const double slope = (estimate_last_[d] - estimate_first_[d]) / length_;
  ClockModel m;
  m.at_ns = base.raw;
  m.offset_ns = base.offset_ns + std::llround(estimate_first_[d]);
  m.drift_ppm = ((1 + base.drift) * (1 + slope) - 1) * 1e6;
  if (std::isfinite(bound(d))) m.bound_ns = static_cast<int64_t>(std::ceil(bound(d)));
  m.method = "collectives";
  return m;
}

}  // namespace

Refinement refineClocks(const PartTable& table, trace::Clocks& clocks) {
  Refinement out;
  const size_t n = table.domains.size();
  if (n < 2) return out;
  const std::vector<Observation> seen = observe(table, clocks);
  if (seen.empty()) return out;
  const int64_t from = seen.front().reference, to = seen.back().reference + 1;
  const int64_t windows = std::clamp((to - from) / kWindow, int64_t{1}, kMostWindows);
  std::vector<trace::ClockTable> refined(n);
  double before = 0, after = 0;                // the worst
  double before_of_all = 0, after_of_all = 0;  // their sums
  // The clock that is known best is what the others are held against.
  size_t anchor = 0;
  auto worst = [&](size_t d) { return clockOf(clocks, table.domains[d]).worstBound(); };
  for (size_t d = 1; d < n; ++d)
    if (worst(d) < worst(anchor)) anchor = d;
  auto next = seen.begin();
  for (int64_t w = 0; w < windows; ++w) {
    const int64_t begin = from + (to - from) / windows * w;
    const int64_t end = w + 1 < windows ? from + (to - from) / windows * (w + 1) : to;
    const auto first = next;
    while (next != seen.end() && next->reference < end) ++next;
    Window window(table, clocks, anchor, begin, end);
    if (!window.solve({first, next}, out.faults)) return out;
    for (size_t d = 0; d < n; ++d) {
      refined[d].add(window.model(d));
      before = std::max(before, window.boundBefore(d));
      after = std::max(after, window.bound(d));
      before_of_all += window.boundBefore(d);
      after_of_all += window.bound(d);
    }
  }
  if (!(after_of_all < before_of_all)) return out;
  out.used = true;
  out.reference = table.domains[anchor];
  if (std::isfinite(before)) out.bound_before_ns = std::llround(before);
  out.bound_after_ns = std::llround(after);
  for (size_t d = 0; d < n; ++d) clocks[table.domains[d]] = std::move(refined[d]);
  return out;
}

}  // namespace tracesmith::analysis
