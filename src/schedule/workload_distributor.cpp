#include "tracesmith/schedule/workload_distributor.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace tracesmith::schedule {
namespace {

/// One device: what it is worth, and the least and the most it may get.
struct Part {
  double weight = 0;
  uint64_t least = 0, most = 0;
};

double clamped(const Part& p, double scale) {
  return std::clamp(scale * p.weight, static_cast<double>(p.least), static_cast<double>(p.most));
}

/// The factor by which weights become shares when each share is kept within its limits. Their sum grows with the
/// factor, so halving finds it; 200 steps are more than a double has bits.
double findScale(const std::vector<Part>& parts, double count) {
  double lightest = 0;
  for (const Part& p : parts)
    if (p.weight > 0) lightest = lightest == 0 ? p.weight : std::min(lightest, p.weight);
  double low = 0, high = count / lightest;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    double sum = 0;
    for (const Part& p : parts) sum += clamped(p, middle);
    (sum < count ? low : high) = middle;
  }
  return high;
}

/// Whole shares that add up to `count`, as near to the weights as the limits allow: largest remainder. The limits must
/// leave room for it.
std::vector<uint64_t> apportion(uint64_t count, const std::vector<Part>& parts) {
  const double scale = findScale(parts, static_cast<double>(count));
  // Shares at a limit are known; the others share the rest exactly by weight.
  std::vector<uint64_t> shares(parts.size());
  std::vector<size_t> open;
  uint64_t rest = count;
  double weights = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& p = parts[i];
    const double share = scale * p.weight;
    if (p.weight > 0 && share > static_cast<double>(p.least) && share < static_cast<double>(p.most)) {
      open.push_back(i);
      weights += p.weight;
      continue;
    }
    shares[i] = share >= static_cast<double>(p.most) ? p.most : p.least;
    rest -= std::min(rest, shares[i]);
  }
  std::vector<std::pair<double, size_t>> remainders;
  uint64_t left = rest;
  for (size_t i : open) {
    const double exact = static_cast<double>(rest) * (parts[i].weight / weights);
    shares[i] = std::clamp(static_cast<uint64_t>(exact), parts[i].least, parts[i].most);
    shares[i] = std::min(shares[i], left);
    left -= shares[i];
    remainders.emplace_back(exact - static_cast<double>(shares[i]), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (size_t k = 0; left > 0 && k < remainders.size(); ++k)
    if (const size_t i = remainders[k].second; shares[i] < parts[i].most) ++shares[i], --left;
  // Only where rounding of the numbers above left something: to whoever has room.
  for (size_t i = 0; left > 0 && i < parts.size(); ++i) {
    if (parts[i].weight <= 0) continue;
    const uint64_t more = std::min(left, parts[i].most - shares[i]);
    shares[i] += more;
    left -= more;
  }
  return shares;
}

std::string tasks(uint64_t n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

Status checkWeights(const Weights& weights, const char* what) {
  if (weights.empty()) return Status::invalid("there is no device to give work to");
  std::set<std::string> seen;
  double sum = 0;
  for (const auto& [id, weight] : weights) {
    if (!std::isfinite(weight) || weight < 0)
      return Status::invalid(std::string("the ") + what + " of '" + id + "' must be a number that is not negative");
    if (!seen.insert(id).second) return Status::invalid("device '" + id + "' is listed twice");
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return Status::invalid(std::string("no device has a ") + what + " that is more than 0");
  return {};
}

/// Splits `count` if the limits leave room for it.
Result<std::vector<Share>> split(uint64_t count, const Weights& weights, const std::vector<Part>& parts,
                                 const char* noun) {
  uint64_t room = 0;
  for (const Part& p : parts)
    if (p.weight > 0) room = p.most > UINT64_MAX - room ? UINT64_MAX : room + p.most;
  if (room < count)
    return Status::exhausted(tasks(count, noun) + " do not fit: the limits leave room for " + std::to_string(room));
  const std::vector<uint64_t> shares = apportion(count, parts);
  std::vector<Share> out;
  for (size_t i = 0; i < shares.size(); ++i) out.push_back({weights[i].first, shares[i]});
  return out;
}

}  // namespace

Result<std::vector<Share>> WorkloadDistributor::uniform(uint64_t count, const std::vector<std::string>& devices,
                                                        const WorkLimits& limits) {
  Weights weights;
  for (const std::string& id : devices) weights.emplace_back(id, 1.0);
  return byCapacity(count, weights, limits);
}

Result<std::vector<Share>> WorkloadDistributor::byCapacity(uint64_t count, const Weights& capacities,
                                                           const WorkLimits& limits) {
  TS_TRY(checkWeights(capacities, "capacity"));
  for (const auto& limit : limits.max_of)
    if (std::none_of(capacities.begin(), capacities.end(), [&](const auto& c) { return c.first == limit.first; }))
      return Status::notFound("there is a limit for '" + limit.first + "', which is not one of the devices");
  std::vector<Part> parts;
  for (const auto& [id, capacity] : capacities) {
    uint64_t most = std::min(count, limits.max_per_device.value_or(count));
    if (const auto own = limits.max_of.find(id); own != limits.max_of.end()) most = std::min(most, own->second);
    parts.push_back({capacity, 0, most});
  }
  return split(count, capacities, parts, "task");
}

Result<std::vector<Share>> WorkloadDistributor::layersByMemory(uint64_t layers, const Weights& memory_bytes,
                                                               uint64_t layer_bytes) {
  TS_TRY(checkWeights(memory_bytes, "memory"));
  if (layers < memory_bytes.size())
    return Status::invalid(tasks(layers, "layer") + " cannot be split over " + tasks(memory_bytes.size(), "device"));
  std::vector<Part> parts;
  for (const auto& [id, memory] : memory_bytes) {
    uint64_t most = layers;
    if (layer_bytes > 0) most = std::min(layers, static_cast<uint64_t>(std::min(memory, 1e18)) / layer_bytes);
    if (memory <= 0 || most == 0)
      return Status::exhausted("device '" + id + "' has no memory for a layer: leave it out");
    parts.push_back({memory, 1, most});
  }
  return split(layers, memory_bytes, parts, "layer");
}

}  // namespace tracesmith::schedule
