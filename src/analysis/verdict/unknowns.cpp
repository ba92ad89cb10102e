// What an analysis cannot tell, and what it took for granted.
#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

using namespace trace;

void sayUnknowns(const Reader& reader, const JobData& job, StepSource source, uint64_t off_clock, Analysis& out) {
  auto add = [&](std::string s) { out.unknowns.push_back(std::move(s)); };
  if (out.world_size && *out.world_size > out.ranks && out.ranks > 0)
    add(std::to_string(out.ranks) + " of " + std::to_string(*out.world_size) +
        " ranks are in the trace: the culprit may be one of the missing ranks");
  if (out.incomplete > 0)
    add(std::to_string(out.incomplete) + " of " + std::to_string(job.table.instances.size()) +
        " collectives lack some of their ranks: their transfer time is unknown");
  if (off_clock > 0)
    add(std::to_string(off_clock) +
        " collectives contradict the clocks (a rank left before the last one arrived) and were left out");
  if (out.unmatched > 0)
    add(std::to_string(out.unmatched) + " parts of collectives have ids that do not match and were left out");
  if (job.device_lost)
    add("hosts launched kernels, but no kernel is in the trace: it was cut short, or the GPU was not recorded; where "
        "the time goes is unknown");
  if (job.table.parts.empty()) add("cannot tell who waited: the trace has no collectives");
  static constexpr const char* kMark =
      "mark them in the training loop, with torch.cuda.nvtx.range_push(f\"step {i}\") and range_pop(), or with "
      "tracesmith_step_begin(i) and tracesmith_step_end()";
  if (wereFound(source) && !out.steps.empty())
    out.notes.push_back("steps are not marked: found " + counted(out.steps.size(), "step") + " of " +
                        humanNs(job.step_ns) + " by " +
                        (source == StepSource::optimizer    ? "the ranges of their optimizers"
                         : source == StepSource::operations ? "operations that repeat"
                                                            : "kernels that repeat") +
                        "; for exact ones, " + kMark);
  else if (source == StepSource::windows)
    add("no training steps are marked: the trace was divided by its collectives into " +
        std::to_string(job.steps.size()) + " intervals, which count as steps; " + kMark);
  else if (job.step_ns == 0)
    add(std::string("no training steps are marked: the whole trace counts as one step, so when a problem started is "
                    "unknown; ") +
        kMark);
  if (job.mixed)
    out.notes.push_back("GPUs of different models take part: a rank is compared with ranks on the same model" +
                        std::string(job.mixed->alone ? "; one alone is compared with its own past" : ""));
  if (job.gpus_shared)
    out.notes.push_back(
        "several ranks share a GPU: what the others compute while they wait for one of them would take the GPU's "
        "time later, so only the time they idle counts as its cost");
  size_t by_thread = 0;
  for (const RankFigures& r : job.ranks) by_thread += r.phases_by_thread;
  if (by_thread > 0)
    out.notes.push_back(
        "not all phases are marked: the others were found by launching thread (torch launches "
        "the backward pass on a separate thread) and by the names of optimizer kernels");
  uint64_t lost = 0;
  for (const LossResult& l : out.losses) lost += l.count;
  if (lost > 0) add(std::to_string(lost) + " records were lost (see losses): the figures of those ranks are too low");
  if (const std::string damage = reader.damageSummary(); !damage.empty())
    add(damage + ": their contents are not counted");
  if (out.ranks == 1) add("only one rank: whether it waited for others is unknown");
}

}  // namespace tracesmith::analysis
