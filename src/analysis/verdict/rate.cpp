// How fast the model is trained, from the counters of the Python hooks.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"
#include "model/hook_names.hpp"

namespace tracesmith::analysis {

using namespace trace;

Status findRate(const Reader& reader, const NameNumbers& names, const JobData& job, Analysis& out) {
  static constexpr std::string_view kNames[] = {model::kFlops, model::kMfu, model::kSamples, model::kTokens};
  std::map<uint32_t, size_t> which;  // by name
  for (uint32_t n = 0; n < names.size(); ++n)
    if (auto it = std::find(std::begin(kNames), std::end(kNames), names.text(n)); it != std::end(kNames))
      which[n] = static_cast<size_t>(it - std::begin(kNames));
  if (which.empty()) return {};
  std::map<int64_t, std::array<std::vector<double>, 4>> values;  // by process
  TS_TRY(eachRow<CounterRow>(reader, names, {counters::rank, counters::pid, counters::name, counters::value},
                             [&](const CounterRow& row, auto&&) {
                               auto it = row.name == kNull ? which.end() : which.find(static_cast<uint32_t>(row.name));
                               if (it == which.end() || row.value == kNull) return;
                               if (const auto value = std::bit_cast<double>(row.value); std::isfinite(value))
                                 values[processOf(row.rank, row.pid)][it->second].push_back(value);
                             }));
  if (values.empty()) return {};
  ModelRate rate;
  std::vector<double> flops, mfu;
  double sums[2] = {};
  size_t with[2] = {};
  for (const auto& [process, of] : values) {
    if (!of[0].empty()) flops.push_back(median(of[0]));
    if (!of[1].empty()) {
      mfu.push_back(median(of[1]));
      if (!(mfu.back() >= rate.mfu_low_pct)) rate.mfu_low_pct = mfu.back(), rate.mfu_low_rank = job.rankOf(process);
    }
    for (size_t i : {0u, 1u})
      if (!of[2 + i].empty()) sums[i] += median(of[2 + i]), ++with[i];
  }
  if (!flops.empty()) rate.step_flops = median(flops);
  if (!mfu.empty()) rate.mfu_pct = median(mfu);
  if (with[0] == values.size()) rate.samples_per_s = sums[0];  // of some ranks it is none of the job's
  if (with[1] == values.size()) rate.tokens_per_s = sums[1];
  TS_TRY(eachRow<MetadataRow>(reader, names, {metadata::key, metadata::value}, [&](const MetadataRow& row, auto&& get) {
    if (row.key != kNull && names.text(static_cast<uint32_t>(row.key)) == model::kHowMfu && rate.how.empty())
      rate.how = get(metadata::value);
  }));
  out.rate = std::move(rate);
  return {};
}

}  // namespace tracesmith::analysis
