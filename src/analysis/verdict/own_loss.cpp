// What a job loses most time with, apart from ranks that wait for each other: all there is to say of one GPU alone.
#include <algorithm>
#include <cstdio>

#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

namespace {

constexpr double kLeastLossPct = 20;  // of the job's time: a device that loses less is busy

/// Of all steps and ranks, µs.
struct Shares {
  double wall = 0, idle = 0, compute = 0, comm = 0, copies = 0, data = 0;
  explicit Shares(const std::vector<Breakdown>& breakdown) {
    for (const Breakdown& b : breakdown) {
      wall += b.compute_us + b.data_us + b.exposed_comm_us + b.idle_us;
      idle += b.idle_us;
      compute += b.compute_us;
      comm += b.exposed_comm_us;
      copies += b.copy_us;
      data += b.data_us - b.copy_us;
    }
  }
  double part(double us) const { return 100 * us / wall; }
};

}  // namespace

std::string percent(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, value >= 10 ? "%.0f %%" : "%.1f %%", value);
  return buffer;
}

std::string whereTimeGoes(const JobData& job, const Analysis& a) {
  const Shares s(a.breakdown);
  if (s.wall <= 0) return "";
  auto part = [&](double us) { return percent(s.part(us)); };
  if (job.host_only && s.compute == 0)
    return ": the host communicates for " + part(s.comm) + " of the time; what it computes is not in the trace";
  return (job.host_only ? ": the host computes for " : ": the GPU computes for ") + part(s.compute) +
         " of the time, only communicates for " + part(s.comm) +
         (job.host_only ? ", waits for data for " : ", copies or waits for data for ") + part(s.copies + s.data) +
         ", is idle for " + part(s.idle);
}

DeviceWork deviceWork(const std::vector<RankFigures>& ranks) {
  DeviceWork out;
  auto add = [&](const KernelSums& sums) {
    for (const auto& [name, sum] : sums) {
      out.kernels[name].count += sum.count;
      out.kernels[name].ns += sum.ns;
    }
  };
  for (const RankFigures& r : ranks) {
    add(r.kernels);
    for (const KernelSums& sums : r.early) add(sums);
    for (const StepFigures& f : r.steps) {
      out.gaps.short_count += f.gaps.short_count;
      out.gaps.short_ns += f.gaps.short_ns;
      out.gaps.long_count += f.gaps.long_count;
      out.gaps.long_ns += f.gaps.long_ns;
    }
  }
  return out;
}

std::vector<KernelResult> largestKernels(const JobData& job, const trace::NameNumbers& names,
                                         const std::vector<uint8_t>& comm, size_t most) {
  const DeviceWork& work = job.work;
  double all = 0;
  for (const auto& [name, sum] : work.kernels) all += static_cast<double>(sum.ns);
  std::vector<std::pair<uint32_t, KernelSum>> sorted(work.kernels.begin(), work.kernels.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  if (sorted.size() > most) sorted.resize(most);
  std::vector<KernelResult> out;
  for (const auto& [name, sum] : sorted) {
    KernelResult k;
    k.name = names.text(name);
    k.communication = comm[name] != 0;
    k.count = sum.count;
    k.total_us = static_cast<double>(sum.ns) / 1000;
    k.share_pct = all > 0 ? 100 * static_cast<double>(sum.ns) / all : 0;
    k.mean_us = k.total_us / static_cast<double>(sum.count);
    out.push_back(std::move(k));
  }
  return out;
}

namespace {

/// Of a job without a GPU only its data is a loss that is certain: what it does while nothing is marked is not known.
std::optional<OwnLoss> hostLoss(const Shares& s) {
  if (s.wall <= 0 || s.compute <= 0 || s.part(s.data) < kLeastLossPct || s.data < s.idle) return {};
  return OwnLoss{.cause = Cause::data_loading,
                 .pct = s.part(s.data),
                 .text = percent(s.part(s.data)) + " of the time the host waits for the data loader"};
}

}  // namespace

std::optional<OwnLoss> ownLoss(const JobData& job, const Analysis& a) {
  const Shares s(a.breakdown);
  if (job.host_only) return hostLoss(s);
  uint64_t kernels = 0;
  double kernel_us = 0;
  const DeviceWork& work = job.work;
  const Gaps& gaps = work.gaps;
  for (const auto& [name, sum] : work.kernels) {
    kernels += sum.count;
    kernel_us += static_cast<double>(sum.ns) / 1000;
  }
  if (s.wall <= 0 || kernels == 0) return {};
  OwnLoss out;
  const double most = std::max({s.idle, s.comm, s.copies, s.data});
  out.pct = s.part(most);
  if (out.pct < kLeastLossPct) {
    out.cause = Cause::busy;
    out.text = "the GPU " + sentenceOf(Cause::busy, s.part(s.compute));
    if (!a.kernels.empty())
      out.text += "; the largest kernel takes " + percent(a.kernels[0].share_pct) + " of the time of all kernels";
  } else if (most == s.data) {
    out.cause = Cause::data_loading;
    out.text = percent(out.pct) + " of the time the GPU waits for the data loader";
  } else if (most == s.comm) {
    out.cause = Cause::communication;
    out.text = "the GPU " + sentenceOf(Cause::communication, out.pct);
  } else if (most == s.copies) {
    out.cause = Cause::copies;
    out.text = "the GPU " + sentenceOf(Cause::copies, out.pct);
  } else {
    const auto count = static_cast<double>(kernels);
    const bool launches = gaps.short_ns >= gaps.long_ns;
    out.cause = launches ? Cause::launch_bound : Cause::host;
    out.text = "the GPU is idle for " + percent(out.pct) + " of the time: ";
    if (launches)
      out.text += sentenceOf(Cause::launch_bound, kernel_us / count, s.wall / count);
    else
      out.text += "its host launches nothing in " + counted(gaps.long_count, "pause") + " of " +
                  humanNs(static_cast<double>(gaps.long_ns) / static_cast<double>(gaps.long_count)) +
                  (gaps.long_count > 1 ? " on average" : "");
  }
  return out;
}

}  // namespace tracesmith::analysis
