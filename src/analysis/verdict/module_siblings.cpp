#include "analysis/verdict/module_siblings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

namespace {

constexpr double kLeastFactor = 1.3;
constexpr double kLeastShare = 0.01;  // of the time of all modules of a step: less is not worth a sentence
constexpr double kLeastOfHost = 0.1;  // the same of the host's time, which other processes take part of
constexpr double kSure = 5;           // times the usual distance of siblings
constexpr size_t kMost = 3;           // sentences

/// A module that takes too long, on some ranks.
struct Odd {
  size_t module = 0;
  double factor = 0, excess = 0, usual = 0;  // of the rank where it is worst; ns
  std::vector<int64_t> ranks;
  bool by_rank = false;  // compared with itself on other ranks
};

class Siblings {
 public:
  Siblings(const std::vector<ModuleTimes>& times, const std::vector<ModuleResult>& modules, bool host)
      : times_(times), modules_(modules), least_(host ? kLeastOfHost : kLeastShare) {
    for (size_t m = 0; m < times.size(); ++m) {
      groups_[{modules[m].pattern, modules[m].kind}].push_back(m);
      for (const auto& [rank, ns] : times[m]) {
        // What a rank spends in all modules is that of the largest: it has all others in it.
        double& most = whole_[rank];
        most = std::max(most, ns);
      }
    }
  }

  std::vector<Odd> find() const {
    std::vector<Odd> found;
    for (const auto& [key, group] : groups_)
      for (size_t m : group) {
        Odd odd;
        odd.module = m;
        for (const auto& [rank, ns] : times_[m]) compare(group, rank, ns, odd);
        if (!odd.ranks.empty()) found.push_back(std::move(odd));
      }
    // Of one inside of another the inner one is it, if that explains most.
    std::vector<Odd> kept;
    for (const Odd& outer : found)
      if (std::none_of(found.begin(), found.end(), [&](const Odd& inner) {
            return modules_[inner.module].name.starts_with(modules_[outer.module].name + ".") &&
                   inner.excess >= outer.excess / 2;
          }))
        kept.push_back(outer);
    std::sort(kept.begin(), kept.end(), [](const Odd& a, const Odd& b) { return a.excess > b.excess; });
    return kept;
  }

 private:
  void compare(const std::vector<size_t>& group, int64_t rank, double ns, Odd& odd) const {
    std::vector<double> others;
    for (size_t s : group)
      if (auto it = times_[s].find(rank); s != odd.module && it != times_[s].end()) others.push_back(it->second);
    const bool by_rank = others.size() < 2;
    double rank_factor = 1;
    if (by_rank) {
      others.clear();
      for (const auto& [other, value] : times_[odd.module])
        if (other != rank) others.push_back(value);
      if (others.size() < 2) return;
      rank_factor = rankFactor(rank);
    }
    const double usual = median(others) * rank_factor;
    std::vector<double> distances;
    for (double o : others) distances.push_back(std::abs(o * rank_factor - usual));
    const double spread = std::max(1.4826 * median(distances), 0.02 * usual);
    const double excess = ns - usual;
    if (usual <= 0 || ns < kLeastFactor * usual || excess < kSure * spread ||
        excess < least_ * whole_.find(rank)->second)
      return;
    odd.ranks.push_back(rank);
    odd.by_rank = by_rank;
    if (excess > odd.excess) odd.excess = excess, odd.factor = ns / usual, odd.usual = usual;
  }

  /// How many times as long as others a rank takes for everything: that is no matter of a module.
  double rankFactor(int64_t rank) const {
    std::vector<double> factors;
    for (const ModuleTimes& t : times_) {
      std::vector<double> others;
      auto own = t.find(rank);
      for (const auto& [other, ns] : t)
        if (other != rank) others.push_back(ns);
      if (own == t.end() || others.empty()) continue;
      if (const double usual = median(others); usual > 0) factors.push_back(own->second / usual);
    }
    return factors.empty() ? 1 : std::max(1.0, median(factors));
  }

  const std::vector<ModuleTimes>& times_;
  const std::vector<ModuleResult>& modules_;
  const double least_;
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> groups_;  // by pattern and class
  std::map<int64_t, double> whole_;                                            // by rank
};

}  // namespace

void findSlowSiblings(const std::vector<ModuleTimes>& times, std::vector<ModuleResult>& modules, bool host,
                      std::vector<std::string>& notes) {
  const std::vector<Odd> found = Siblings(times, modules, host).find();
  for (size_t i = 0; i < found.size(); ++i) {
    const Odd& odd = found[i];
    ModuleResult& m = modules[odd.module];
    m.slowdown = odd.factor;
    m.slow_ranks = odd.ranks;
    if (i >= kMost) continue;
    char factor[32];
    std::snprintf(factor, sizeof factor, "%.1f", odd.factor);
    const std::vector<int64_t> known = odd.ranks[0] == trace::kNull ? std::vector<int64_t>() : odd.ranks;
    const bool all = odd.ranks.size() == times[odd.module].size();
    const std::string where = known.empty()             ? ""
                              : all && known.size() > 1 ? " on all ranks"
                                                        : " on " + ranksText(known);
    std::string text = m.name + " takes " + factor + " × ";
    text += odd.by_rank ? "as long" + where + " as on the others" : "its siblings" + where;
    text += ": " + humanNs(odd.usual + odd.excess) + (host ? " of the host's time" : " of GPU time") + " in a step, ";
    text += odd.by_rank ? humanNs(odd.usual) + " there" : "of the " + m.pattern + " as a rule " + humanNs(odd.usual);
    notes.push_back(std::move(text));
  }
}

}  // namespace tracesmith::analysis
