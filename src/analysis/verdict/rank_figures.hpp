// What one rank did in each step: where its time went, how fast its kernels were, how much its host was late.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "analysis/collectives/behaviour.hpp"
#include "analysis/collectives/collective_parts.hpp"
#include "analysis/rows/coverage.hpp"
#include "analysis/rows/kernel_reference.hpp"
#include "analysis/rows/launch_order.hpp"
#include "analysis/rows/launches.hpp"
#include "analysis/rows/phases.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "analysis/rows/trace_steps.hpp"
#include "model/communication.hpp"

namespace tracesmith::analysis {

/// How long the device had nothing to do between two pieces of work of a step.
struct Gaps {
  static constexpr int64_t kShort = 1'000'000;  ///< ns; a host that launches all the time leaves no longer ones
  uint64_t short_count = 0, long_count = 0;
  int64_t short_ns = 0, long_ns = 0;
};

/// One step of one rank, or the whole trace of a rank without steps. The step lasts until the next one begins.
/// wall = phases + other + data + exposed_comm + idle; hidden_comm runs under computation.
struct StepFigures {
  int64_t step = trace::kNull;
  int64_t ts = 0, end = 0;   ///< raw clock
  int64_t phase_ns[3] = {};  ///< computation launched in forward, backward, optimizer
  int64_t other_ns = 0;      ///< computation launched elsewhere
  int64_t data_ns = 0;       ///< copies and sets with nothing else, and waiting for the data loader
  int64_t copy_ns = 0;       ///< of that, copies and sets
  int64_t exposed_comm_ns = 0, hidden_comm_ns = 0, idle_ns = 0;
  int64_t missing_ns = 0;                 ///< in which the GPU was not recorded: in none of the others
  int64_t host_late_ns = 0;               ///< idle, and the next work was not even launched
  int64_t to_host_ns = 0;                 ///< copies from the device to the host
  int64_t pause_ns[3] = {};               ///< in which a range says why nothing is launched, by Pause
  double actual_ns = 0, expected_ns = 0;  ///< computation kernels, and what they take as a rule
  double own_ns = 0;                      ///< kernels that no other rank launches in this shape
  Gaps gaps;
  /// Enough of it was recorded to say where its time went.
  bool known() const { return step == trace::kNull ? missing_ns < end - ts : 2 * missing_ns <= end - ts; }
  int64_t computeNs() const { return phase_ns[0] + phase_ns[1] + phase_ns[2] + other_ns; }
};

/// All kernels of one name.
struct KernelSum {
  uint64_t count = 0;
  int64_t ns = 0;
};

using KernelSums = std::map<uint32_t, KernelSum>;  ///< by name

/// What the device did in some steps.
struct DeviceWork {
  KernelSums kernels;
  Gaps gaps;
};

constexpr size_t kMostWarmUp = 8;  ///< steps in front that may turn out to belong to the start-up

struct RankFigures {
  int64_t process = 0;
  bool phases_known = false;
  bool phases_by_thread = false;  ///< some, or all
  bool by_kernels = false;        ///< steps were found in its kernels
  std::vector<StepFigures> steps;
  KernelSums kernels;                         ///< in its steps, but for
  std::array<KernelSums, kMostWarmUp> early;  ///< the first ones, each for itself, of steps that were found
  std::vector<Part> recognised;               ///< communication kernels that `collectives` does not have
  std::vector<KernelSample> samples;          ///< of kernels that it does not have, whatever they are
};

/// What is the same for all ranks.
struct FigureContext {
  const trace::NameNumbers& names;
  const TraceSteps& steps;
  const KernelReference& reference;
  const DeviceModels* models = nullptr;       ///< nullptr: all ranks run on the same
  const Coverage* coverage = nullptr;         ///< nullptr: everything was recorded
  std::vector<Phase> phases;                  ///< by name
  std::vector<Pause> pauses;                  ///< by name
  std::vector<uint8_t> wanted;                ///< by name: is a phase, a pause or an evaluation
  std::vector<uint8_t> to_host;               ///< by name: is a copy from the device to the host
  std::vector<uint8_t> optimizer;             ///< by name: is a kernel of an optimizer
  std::vector<const model::CommRule*> rules;  ///< by name: nullptr: not communication
  std::vector<uint8_t> excluded;              ///< by name: a rule says that it is not communication
  std::vector<uint8_t> synchronising;         ///< by name: communicates, as its behaviour says; empty: none does
  std::vector<uint8_t> host_calls;            ///< by name: communication of the host, or a call of it
  bool host_only = false;                     ///< nothing ran on a device: the host's operators are the work
  int64_t window_ns = 0;                      ///< ranks without steps are divided into stretches of this length; 0: no
  bool device_lost = false;                   ///< something did, but none of it is in the trace
  FigureContext(const trace::NameNumbers& names, const TraceSteps& steps, const KernelReference& reference,
                const model::CommRules& rules);
};

/// Steps as windows without gaps: each lasts until the next begins. Without steps: stretches of `window_ns`, or (0)
/// one.
std::vector<StepFigures> windowsOf(const std::vector<RankStep>& steps, const RankRows& rows, int64_t window_ns = 0);

/// A step before an evaluation ends where that begins.
void leaveOutEvaluations(const trace::NameNumbers& names, const RankRows& rows, std::vector<StepFigures>& steps);

/// Also sets exposed_ns and blocks of the rank's parts.
RankFigures rankFigures(const FigureContext& context, const RankRows& rows, const Launches& launches,
                        std::span<Part> parts);

}  // namespace tracesmith::analysis
