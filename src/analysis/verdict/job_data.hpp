// Everything the analyses over all ranks work on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/collectives/collective_parts.hpp"
#include "analysis/rows/device_models.hpp"
#include "analysis/rows/telemetry.hpp"
#include "analysis/verdict/rank_figures.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {

/// GPUs of different models in one job, the slowest of which set the pace.
struct MixedDevices {
  std::vector<int64_t> slow;  ///< ranks on the slowest model
  std::string slow_model, other_models;
  double factor = 1;                                       ///< how many times as long they compute
  double balanced_pct = kUnknown, without_pct = kUnknown;  ///< of the job's time that would be saved
  bool alone = false;                                      ///< one rank: nobody on its model to compare it with
  double measured_ratio = kUnknown;                        ///< what `bench` says the factor may be
};

struct JobData {
  PartTable table;                 ///< in reference time
  std::vector<RankFigures> ranks;  ///< by process
  std::vector<int64_t> steps;      ///< numbers, ascending; one kNull where there are none
  trace::Clocks clocks;            ///< by clock domain
  Telemetry telemetry;
  std::map<int64_t, int64_t> device_of;  ///< by process
  DeviceModels models;
  /// By process: ranks with the same number have the same part of a pipeline; empty where there is none.
  std::map<int64_t, uint32_t> stage_of;
  std::map<int64_t, int64_t> role_of;  ///< by process: name of its role, where it has one
  std::optional<MixedDevices> mixed;
  std::map<int64_t, std::vector<int64_t>> together;  ///< by rank: all of its stage, where that is slow as a whole
  std::map<int64_t, uint64_t> lost;                  ///< records lost, by process
  bool clocks_known = true;                          ///< every domain has a clock
  bool host_only = false;                            ///< nothing ran on a device
  bool device_lost = false;                          ///< something did, but the trace has none of it
  bool gpus_shared = false;                          ///< a node has more ranks than GPUs
  int64_t start = 0, end = 0;                        ///< reference clock
  DeviceWork work;                                   ///< of all ranks, in the steps
  double step_ns = 0;                                ///< median step of the median rank; 0: no steps
  /// What ranks, and links by their group, cost nothing now and would cost once what costs most is well, % of the
  /// job's time.
  std::map<int64_t, double> hidden_ranks;
  std::map<std::string, double> hidden_links;

  std::string nodeOf(int64_t process) const {
    auto it = table.node_of.find(process);
    return it == table.node_of.end() ? "" : it->second;
  }
  uint32_t stageOf(int64_t process) const {
    auto it = stage_of.find(process);
    return it == stage_of.end() ? 0 : it->second;
  }
  int64_t rankOf(int64_t process) const { return process >= 0 ? process : trace::kNull; }
};

/// What is known rank by rank, before ranks are compared: times of parts are raw, and there are no instances.
struct RankData {
  trace::NameNumbers names;
  JobData job;
  StepSource source = StepSource::none;
  std::vector<uint8_t> comm;  ///< by name: a kernel that communicates
};
/// `window_ns`: ranks without marked steps are divided into stretches of this length; 0: their steps are looked for.
Result<RankData> loadRanks(const trace::Reader& reader, const AnalyzeOptions& options, int64_t window_ns);

/// What the tables of a summary say of each rank, and how steps are known. Fills the ranks of the job and of `out`.
Result<StepSource> readSummaries(const trace::Reader& reader, const FigureContext& context, JobData& job,
                                 Analysis& out);
constexpr int64_t kSummaryWindowNs = 1'000'000'000;  ///< what takes the place of a step that nobody marked

/// What sets a rank apart, found without comparing clocks.
struct RankEvidence {
  Cause cause = Cause::unknown;
  std::string sentence;
  double excess = 0;    ///< part of its work (compute) or of a step (host, data)
  double sureness = 0;  ///< standard errors
  bool significant = false;
  int64_t since_step = trace::kNull;
  std::vector<size_t> together;  ///< ranks, by index: all of a pipeline's stage; empty: this one alone
};
std::vector<RankEvidence> rankEvidence(const JobData& job);

/// Which ranks have the same part of a pipeline: they share communicators in which nobody sends anything on.
void findStages(JobData& job);
/// By rank: a number that ranks share which can be compared: on the same model of GPU, with the same role and, if asked
/// for and if there are several, of the same stage of a pipeline.
std::vector<uint32_t> alike(const JobData& job, bool by_stage);
/// How long a rank computes in a step, ns; NaN: not known.
double computeOf(const RankFigures& rank);
/// The same, usual for ranks on this model.
double usualCompute(const JobData& job, uint32_t model);
/// Whether GPUs of a slower model hold up the others. Says nothing yet of what that costs.
std::optional<MixedDevices> findMixed(const JobData& job);
/// "rank 3", "ranks 4 to 7", "ranks 1, 5, 8 and 3 more".
std::string ranksText(std::vector<int64_t> ranks);

/// One entry per rank: those whose own work explains it first, then by cost. `roots`: by instance, the process blamed
/// for it, or INT32_MIN.
std::vector<Blame> blameRanks(const JobData& job, const std::vector<RankEvidence>& evidence,
                              const std::vector<int32_t>& roots);
/// Who was late, walked back: a culprit that itself waited for another group hands the blame on.
std::vector<int32_t> rootsOf(const JobData& job);

struct LinkEvidence {
  LinkResult result;
  uint32_t comm;           ///< in PartTable::comms; UINT32_MAX: none that the job waits for
  double left = kUnknown;  ///< of its transfers, with a link as usual; not known: as the slowdown says
};
/// "communicator 0x1f", "the link from rank 2 to rank 3".
std::string linkName(const LinkResult& link);
std::vector<LinkEvidence> findLinks(const JobData& job);
/// Slow pairs of ranks, by the sends and receives of a pipeline.
void addPairs(const JobData& job, std::vector<LinkEvidence>& links);
/// The same, where the proxy's transfers are in the trace.
Status addProxyLinks(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job,
                     std::vector<LinkEvidence>& links);

/// Puts all ranks on one clock: sets the times of operations, and says what is wrong with the clocks.
void settleClocks(JobData& job, Analysis& out);

/// Adds what cannot be told to `out.unknowns`, and what was taken for granted to `out.notes`. `off_clock`: operations
/// that were left out because they contradict the clocks.
void sayUnknowns(const trace::Reader& reader, const JobData& job, StepSource source, uint64_t off_clock, Analysis& out);

/// Steps that nobody marked: what the operations of every rank repeat. Leaves `steps` as it is where they do not.
/// `kernels`: the trace has kernels, which say more than an operation or two that repeat.
void findByOperations(const PartTable& table, bool kernels, TraceSteps& steps);
/// Steps that were found are numbered from 0 on all ranks, so that the last is the same one. Those in front that are
/// much longer than usual warm up: they belong to the start-up.
void numberFoundSteps(JobData& job);
/// Operations before the first step (and after the last, where steps were found) are not the job's: nobody is blamed.
void leaveOutStartUp(JobData& job, StepSource source);
/// Without steps, stretches between the same collectives on every rank are what can be compared.
void cutByCollectives(const PartTable& table, TraceSteps& steps);
/// Fills the steps and times of the job, and what `out` says about them.
void sumUpSteps(JobData& job, StepSource source, Analysis& out);
/// Counts collectives and, if asked for, lists `each`. Returns how many contradict the clocks.
uint64_t listCollectives(const JobData& job, const std::vector<int32_t>& roots, bool each, Analysis& out);
/// What the Python hooks tell: roles, stalls, modules, rates, memory and compilations, as below. `comm`: by name: a
/// kernel that communicates.
Status sayHooks(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job,
                const std::vector<uint8_t>& comm, size_t threads, Analysis& out);
/// Notes of `out`: the lines of the program in which hosts wait for the GPU.
Status sayStalls(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job, Analysis& out);
/// Fills role_of.
Status readRoles(const trace::Reader& reader, const trace::NameNumbers& names, JobData& job);
/// Fills the roles of `out`, where there are several. `comm`: by name, kernels that communicate.
Status findRoles(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job,
                 const std::vector<uint8_t>& comm, Analysis& out);
/// Fills the modules of `out`, and notes those that take longer than their siblings.
Status findModules(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job,
                   const std::vector<uint8_t>& comm, size_t threads, Analysis& out);
/// Fills the rate of `out`.
Status findRate(const trace::Reader& reader, const trace::NameNumbers& names, const JobData& job, Analysis& out);
/// Notes of `out`: memory that grows or ran out, and what torch.compile did again.
Status sayMemory(const trace::Reader& reader, const trace::NameNumbers& names, Analysis& out);
Status sayCompilations(const trace::Reader& reader, const trace::NameNumbers& names, Analysis& out);
/// Fills the communication matrix of `out`.
void findTraffic(const JobData& job, const trace::NameNumbers& names, Analysis& out);
/// The critical path, and what the job would gain if something were different. Fills saved_pct of blame and links, and
/// the hidden costs of the job. Nothing: the job cannot be replayed.
std::optional<CriticalPath> whatIf(JobData& job, const std::vector<RankEvidence>& evidence, std::vector<Blame>& blame,
                                   std::vector<LinkEvidence>& links);

/// The collective others waited for longest (in which `culprit` came last, if it ever did), and what its ranks did
/// around it; nothing where nobody waited.
Result<std::optional<Excerpt>> worstCollective(const trace::Reader& reader, const model::CommRules& rules,
                                               const JobData& job, const std::vector<int32_t>& roots, int64_t culprit);

constexpr int32_t kNobody = INT32_MIN;
constexpr double kLeastCostPct = 0.1;  ///< of the job's time; less is none

/// What the devices of all ranks did in the steps.
DeviceWork deviceWork(const std::vector<RankFigures>& ranks);
/// The kernels that take most time.
std::vector<KernelResult> largestKernels(const JobData& job, const trace::NameNumbers& names,
                                         const std::vector<uint8_t>& comm, size_t most);
/// "9.5 %", "95 %".
std::string percent(double value);
/// ": the GPU computes for 41 % of the time, …"; empty: not known.
std::string whereTimeGoes(const JobData& job, const Analysis& a);
/// What the job loses most time with, whoever waits for whom; `busy` where that is little. `text`: where the time goes.
struct OwnLoss {
  Cause cause = Cause::unknown;
  double pct = 0;
  std::string text;
};
std::optional<OwnLoss> ownLoss(const JobData& job, const Analysis& a);

Verdict makeVerdict(const JobData& job, const Analysis& a);

}  // namespace tracesmith::analysis
