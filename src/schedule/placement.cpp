#include "schedule/placement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tracesmith::schedule {
namespace {

constexpr int kStarts = 24;               // of the search, besides the naive and the greedy one
constexpr double kMostWork = 300e6;       // pairs of devices looked at: about a second
constexpr double kLessIsNothing = 1e-12;  // relative

using Order = std::vector<uint32_t>;  // device of each rank; those of no rank come after

class Search {
 public:
  Search(const PlacementDevices& devices, const std::vector<RankGroup>& groups, uint32_t ranks)
      : devices_(devices), groups_(groups), ranks_(ranks), of_rank_(devices.size()) {
    for (size_t g = 0; g < groups.size(); ++g)
      for (const uint32_t rank : groups[g].ranks) of_rank_[rank].push_back(g);
  }

  /// Everybody with everybody else: the slowest part of the way that has the fastest slowest part. A ring of NCCL's
  /// finds it.
  double costOf(const RankGroup& group, const Order& order) const {
    const size_t n = group.ranks.size();
    if (n < 2) return 0;
    work_ += static_cast<double>(n) * static_cast<double>(n);
    if (group.chain) {
      double cost = 0;
      for (size_t i = 0; i + 1 < n; ++i)
        cost += group.weight / devices_.gbps(order[group.ranks[i]], order[group.ranks[i + 1]]);
      return cost;
    }
    std::vector<double>& best = best_;
    best.assign(n, 0);
    double slowest = INFINITY;
    size_t last = 0;
    best[0] = INFINITY;
    for (size_t step = 1; step < n; ++step) {
      size_t next = n;
      for (size_t i = 1; i < n; ++i) {
        if (best[i] == INFINITY) continue;  // it is reached
        best[i] = std::max(best[i], devices_.gbps(order[group.ranks[last]], order[group.ranks[i]]));
        if (next == n || best[i] > best[next]) next = i;
      }
      slowest = std::min(slowest, best[next]);
      best[next] = INFINITY;
      last = next;
    }
    const auto count = static_cast<double>(n);
    return group.weight * 2 * (count - 1) / count / slowest;
  }

  double costOf(const Order& order) const {
    double cost = 0;
    for (const RankGroup& group : groups_) cost += costOf(group, order);
    return cost;
  }

  /// Of the groups that two ranks are in.
  double costAround(uint32_t a, uint32_t b, const Order& order) const {
    double cost = 0;
    for (const size_t g : of_rank_[a]) cost += costOf(groups_[g], order);
    for (const size_t g : of_rank_[b])
      if (std::find(of_rank_[a].begin(), of_rank_[a].end(), g) == of_rank_[a].end()) cost += costOf(groups_[g], order);
    return cost;
  }

  /// The best of all orders.
  Order exact() const {
    Order order(devices_.size()), best;
    std::iota(order.begin(), order.end(), 0u);
    double least = INFINITY;
    do {
      // Devices of no rank are all alike: one of their orders is enough.
      if (!std::is_sorted(order.begin() + ranks_, order.end())) continue;
      if (const double cost = costOf(order); cost < least * (1 - kLessIsNothing)) {
        least = cost;
        best = order;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return best;
  }

  /// Exchanges pairs until no exchange helps.
  void improve(Order& order) const {
    const auto all = static_cast<uint32_t>(order.size());
    for (bool better = true; better && work_ < kMostWork;) {
      better = false;
      for (uint32_t a = 0; a < ranks_ && work_ < kMostWork; ++a)
        for (uint32_t b = a + 1; b < all; ++b) {
          const double before = costAround(a, b, order);
          std::swap(order[a], order[b]);
          if (costAround(a, b, order) < before * (1 - 1e-9))
            better = true;
          else
            std::swap(order[a], order[b]);
        }
    }
  }

  /// Groups that exchange most come first; each of their ranks gets the free device that is nearest to the others.
  Order greedy() const {
    std::vector<size_t> by_weight(groups_.size());
    std::iota(by_weight.begin(), by_weight.end(), size_t{0});
    std::stable_sort(by_weight.begin(), by_weight.end(),
                     [&](size_t a, size_t b) { return groups_[a].weight > groups_[b].weight; });
    const size_t all = devices_.size();
    Order order(all, UINT32_MAX);
    std::vector<bool> taken(all, false);
    auto give = [&](uint32_t rank, const std::vector<uint32_t>& others) {
      size_t best = all;
      double nearest = -1;
      for (size_t d = 0; d < all; ++d) {
        if (taken[d]) continue;
        double gbps = 0;
        for (const uint32_t other : others)
          if (order[other] != UINT32_MAX) gbps += devices_.gbps(d, order[other]);
        if (gbps > nearest) nearest = gbps, best = d;
      }
      order[rank] = static_cast<uint32_t>(best);
      taken[best] = true;
    };
    for (const size_t g : by_weight)
      for (const uint32_t rank : groups_[g].ranks)
        if (order[rank] == UINT32_MAX) give(rank, groups_[g].ranks);
    for (uint32_t rank = 0; rank < all; ++rank)
      if (order[rank] == UINT32_MAX) give(rank, {});
    return order;
  }

  Order search() const {
    const size_t all = devices_.size();
    Order best(all);
    std::iota(best.begin(), best.end(), 0u);
    double least = costOf(best);
    auto consider = [&](Order order) {
      improve(order);
      if (const double cost = costOf(order); cost < least * (1 - kLessIsNothing)) {
        least = cost;
        best = std::move(order);
      }
    };
    consider(best);
    consider(greedy());
    std::mt19937 random(1);  // the same answer every time
    for (int i = 0; i < kStarts && work_ < kMostWork; ++i) {
      Order order = best;
      if (i % 2 == 0)
        std::shuffle(order.begin(), order.end(), random);
      else  // not far from the best so far
        for (size_t n = 0; n < std::max<size_t>(2, all / 4); ++n)
          std::swap(order[random() % all], order[random() % all]);
      consider(std::move(order));
    }
    return best;
  }

 private:
  const PlacementDevices& devices_;
  const std::vector<RankGroup>& groups_;
  const uint32_t ranks_;
  std::vector<std::vector<size_t>> of_rank_;  // groups, by rank
  mutable std::vector<double> best_;
  mutable double work_ = 0;
};

}  // namespace

Result<Placement> place(const PlacementDevices& devices, const PlacementRequest& request, size_t exact_up_to) {
  uint32_t ranks = 0;
  const Result<std::vector<RankGroup>> groups = groupsOf(request, ranks);
  if (!groups) return groups.status();
  if (devices.size() == 0) return Status::notFound("there is no GPU");
  if (devices.size() > PlacementDevices::kMost)
    return Status::invalid("placement is for at most " + std::to_string(PlacementDevices::kMost) + " GPUs");
  if (ranks > devices.size())
    return Status::invalid("the job has " + std::to_string(ranks) + " ranks, and there " +
                           (devices.size() == 1 ? "is 1 GPU" : "are " + std::to_string(devices.size()) + " GPUs"));
  const Search search(devices, *groups, ranks);
  Order naive(devices.size());
  std::iota(naive.begin(), naive.end(), 0u);
  Placement placement;
  placement.exact = devices.size() <= exact_up_to;
  const Order order = placement.exact ? search.exact() : search.search();
  placement.naive_cost = search.costOf(naive);
  placement.cost = search.costOf(order);
  placement.assumed_links = devices.assumed();
  for (uint32_t rank = 0; rank < ranks; ++rank) placement.ranks.push_back({rank, devices.id(order[rank])});
  return placement;
}

}  // namespace tracesmith::schedule
