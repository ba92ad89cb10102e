#include "analysis/rows/launch_order.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/rows/repetition.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr double kAlike = 0.2;      // lengths of steps differ by less, of the usual one,
constexpr double kMostAlike = 0.7;  // in so many of them
constexpr size_t kLeastSteps = 2;
constexpr size_t kInARow = 4;        // other kernels between those of one optimizer
constexpr double kComplete = 0.9;    // of the last step is there
constexpr size_t kLeastKernels = 4;  // of a step; fewer that repeat are a loop

bool alike(size_t a, size_t usual) {
  return std::abs(static_cast<double>(a) - static_cast<double>(usual)) <= kAlike * static_cast<double>(usual);
}

/// How many other kernels are between two optimizers as a rule: that of the middle one of all kernels.
size_t usualGap(std::vector<size_t> gaps) {
  std::sort(gaps.begin(), gaps.end());
  size_t all = 0, sum = 0;
  for (size_t g : gaps) all += g - 1;
  for (size_t g : gaps)
    if (2 * (sum += g - 1) >= all) return g;
  return 0;
}

}  // namespace

bool isOptimizerKernel(std::string_view name) {
  if (name.find("Copy<") != name.npos || name.find("CopyFunctor") != name.npos) return false;  // FSDP copies its shards
  for (std::string_view word : {"multi_tensor_apply", "foreach", "adam", "Adam", "ADAM", "sgd", "SGD", "lamb_", "LAMB",
                                "Optimizer", "optimizer"})
    if (name.find(word) != name.npos) return true;
  return false;
}

LaunchOrder::LaunchOrder(const RankRows& rows, const Launches& launches, const std::vector<uint8_t>& optimizer) {
  size_t known = 0, all = 0;
  std::vector<size_t> by_stream(rows.streams.size(), 0);
  for (const DeviceEvent& e : rows.device) {
    if (e.type != EventType::kernel || e.name == trace::kNoName) continue;
    ++all;
    ++by_stream[static_cast<size_t>(e.stream)];
    known += e.correlation != kNull && launches.find(e.correlation);
  }
  if (all == 0) return;
  calls_known = 2 * known > all;
  auto item = [&](const DeviceEvent& e, int64_t called, int32_t thread, size_t call) {
    return Launched{called, e.ts, e.end, e.name, thread, static_cast<uint32_t>(call), optimizer[e.name] != 0};
  };
  if (!calls_known) {
    const auto busiest = std::max_element(by_stream.begin(), by_stream.end()) - by_stream.begin();
    for (const DeviceEvent& e : rows.device)
      if (e.type == EventType::kernel && e.name != trace::kNoName && e.stream == busiest)
        kernels.push_back(item(e, e.ts, -1, 0));
    return;
  }
  std::vector<uint32_t> of_call(rows.calls.size(), UINT32_MAX);
  std::vector<Launched> found;
  found.reserve(known);
  for (const DeviceEvent& e : rows.device) {
    if (e.type != EventType::kernel || e.name == trace::kNoName || e.correlation == kNull) continue;
    const HostCall* call = launches.find(e.correlation);
    if (!call) continue;
    const auto index = static_cast<size_t>(call - rows.calls.data());
    uint32_t& at = of_call[index];
    if (at == UINT32_MAX) {
      at = static_cast<uint32_t>(found.size());
      found.push_back(item(e, call->ts, call->thread, index));
    } else {
      found[at].end = std::max(found[at].end, e.end);
    }
  }
  kernels.reserve(found.size());
  for (uint32_t at : of_call)
    if (at != UINT32_MAX) kernels.push_back(found[at]);
}

std::vector<RankStep> LaunchOrder::stepsBetween(const std::vector<Interval>& optimizers, int64_t from) const {
  std::vector<int64_t> ends = {from}, lengths;
  for (const Interval& o : optimizers) {
    int64_t end = INT64_MIN;  // of what it launched
    auto it = std::lower_bound(kernels.begin(), kernels.end(), o.from,
                               [](const Launched& k, int64_t t) { return k.called < t; });
    for (; calls_known && it != kernels.end() && it->called < o.to; ++it) end = std::max(end, it->end);
    if (end == INT64_MIN) end = o.to;
    if (end <= ends.back()) continue;
    lengths.push_back(end - ends.back());
    ends.push_back(end);
  }
  std::vector<RankStep> out;
  if (lengths.size() < kLeastSteps) return out;
  // What came before the first optimizer is a step too, unless it is start-up or the recording began in the middle.
  const auto usual = static_cast<size_t>(median(std::vector<int64_t>(lengths.begin() + 1, lengths.end())));
  for (size_t s = alike(static_cast<size_t>(lengths[0]), usual) ? 0 : 1; s < lengths.size(); ++s)
    out.push_back({ends[s], ends[s + 1], static_cast<int64_t>(out.size()), kNull});
  return out;
}

std::vector<RankStep> LaunchOrder::optimizerSteps() const {
  std::vector<size_t> gaps, ends;  // a step ends before each
  size_t last = SIZE_MAX;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i].optimizer) continue;
    if (last != SIZE_MAX) gaps.push_back(i - last);
    last = i;
  }
  const size_t usual_gap = gaps.empty() ? 0 : usualGap(gaps);
  std::vector<RankStep> out;
  if (usual_gap <= kInARow) return out;
  last = SIZE_MAX;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!kernels[i].optimizer) continue;
    if (last != SIZE_MAX && 2 * (i - last) >= usual_gap) ends.push_back(last + 1);
    last = i;
  }
  ends.push_back(last + 1);
  std::vector<size_t> lengths = {ends[0]};
  for (size_t m = 1; m < ends.size(); ++m) lengths.push_back(ends[m] - ends[m - 1]);
  const size_t usual =
      lengths.size() > 2 ? median(std::vector<size_t>(lengths.begin() + 1, lengths.end())) : lengths.back();
  size_t first = 0, regular = 0;  // what comes before steps are alike is start-up
  while (first < lengths.size() && !alike(lengths[first], usual)) ++first;
  for (size_t m = first; m < lengths.size(); ++m) regular += alike(lengths[m], usual);
  if (regular < kLeastSteps || static_cast<double>(regular) < kMostAlike * static_cast<double>(lengths.size() - first))
    return out;
  int64_t from = kernels[0].ts;
  for (size_t m = 0; m < ends.size(); ++m) {
    const int64_t to = kernels[ends[m] - 1].end;
    if (m >= first && to > from) out.push_back({from, to, static_cast<int64_t>(out.size()), kNull});
    from = std::max(from, to);
  }
  return out;
}

std::vector<RankStep> LaunchOrder::repeatedSteps() const {
  std::vector<uint64_t> symbols;
  std::vector<int64_t> times;
  for (const Launched& k : kernels) {
    symbols.push_back(combined(k.name, static_cast<uint64_t>(k.thread)));
    times.push_back(k.called);
  }
  std::vector<RankStep> out;
  const std::optional<Repetition> found = findRepetition(symbols, times);
  if (!found || found->length < kLeastKernels) return out;
  for (size_t i = 0; i < found->starts.size(); ++i) {
    const size_t from = found->starts[i];
    const bool last = i + 1 == found->starts.size();
    if (last && static_cast<double>(kernels.size() - from) < kComplete * static_cast<double>(found->length)) break;
    const int64_t until =
        last ? kernels[std::min(from + found->length, kernels.size()) - 1].end : kernels[found->starts[i + 1]].ts;
    if (until > kernels[from].ts) out.push_back({kernels[from].ts, until, static_cast<int64_t>(out.size()), kNull});
  }
  return out;
}

std::optional<std::vector<RankStep>> LaunchOrder::atOptimizer(const std::vector<RankStep>& steps) const {
  if (steps.size() < kLeastSteps) return {};
  // By calls where those of operations and of kernels are known, else by what the device did.
  const bool by_call = calls_known && steps[0].called != kNull;
  std::vector<std::pair<int64_t, int64_t>> optimizer;  // began, ended
  for (const Launched& k : kernels)
    if (k.optimizer) optimizer.emplace_back(by_call ? k.called : k.ts, k.end);
  std::sort(optimizer.begin(), optimizer.end());
  auto ended = [&](int64_t from, int64_t to) {
    auto it = std::lower_bound(optimizer.begin(), optimizer.end(), std::pair(to, INT64_MIN));
    return it == optimizer.begin() || (it - 1)->first < from ? kNull : (it - 1)->second;
  };
  auto begin = [&](size_t s) { return by_call ? steps[s].called : steps[s].ts; };
  std::vector<int64_t> lengths;
  for (size_t s = 1; s < steps.size(); ++s) lengths.push_back(begin(s) - begin(s - 1));
  const int64_t usual = median(lengths);
  std::vector<int64_t> ends = {ended(begin(0) - usual, begin(0))};
  size_t missing = 0;
  for (size_t s = 1; s < steps.size(); ++s) {
    ends.push_back(ended(begin(s - 1), begin(s)));
    missing += ends.back() == kNull;
  }
  ends.push_back(ended(begin(steps.size() - 1), begin(steps.size() - 1) + usual));
  if (5 * missing > steps.size()) return {};
  // Before the first step there need not have been an optimizer.
  if (ends[0] == kNull && ends[1] != kNull && ends[1] - usual < steps[0].ts)
    ends[0] = std::max(kernels[0].ts, ends[1] - usual);
  std::vector<RankStep> out = steps;
  for (size_t s = 0; s < out.size(); ++s) {
    if (ends[s] != kNull) out[s].ts = ends[s];
    if (ends[s + 1] != kNull)
      out[s].end = ends[s + 1];
    else if (s + 1 < out.size())
      out[s].end = out[s + 1].ts;
  }
  return out;
}

std::vector<Phase> LaunchOrder::phases(size_t calls, const PhaseTimeline& marked) const {
  auto optimizes = [&](const Launched& k) {
    return k.optimizer || (!marked.empty() && marked.at(k.called) == Phase::optimizer);
  };
  constexpr size_t kLeastPart = 10;  // of all kernels, one in so many is launched by the other thread
  std::map<int32_t, size_t> optimizers;
  for (const Launched& k : kernels)
    if (k.thread >= 0 && optimizes(k)) ++optimizers[k.thread];
  if (optimizers.empty() || !calls_known) return {};
  const int32_t main = std::max_element(optimizers.begin(), optimizers.end(), [](const auto& a, const auto& b) {
                         return a.second < b.second;
                       })->first;
  size_t others = 0;
  for (const Launched& k : kernels) others += k.thread >= 0 && k.thread != main;
  if (others * kLeastPart < kernels.size()) return {};
  std::vector<Phase> out(calls, Phase::none);
  bool optimizer = false;  // comes, before the next backward pass
  for (size_t i = kernels.size(); i-- > 0;) {
    const Launched& k = kernels[i];
    if (k.thread < 0) continue;
    if (k.thread != main) {
      optimizer = false;
      out[k.call] = Phase::backward;
    } else {
      optimizer = optimizer || k.optimizer;  // a mark may be of zero_grad, before the backward pass
      out[k.call] = optimizer ? Phase::optimizer : Phase::forward;
    }
  }
  return out;
}

}  // namespace tracesmith::analysis
