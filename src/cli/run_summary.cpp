#include "cli/run_summary.hpp"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/count.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"

namespace tracesmith::cli {
namespace {

/// One step over all ranks that ended it. What no kernel or operation tells is not known.
struct Step {
  int64_t step = 0, busiest = -1;  // rank
  uint64_t ranks = 0, took = 0;    // ns; medians, but for `most`
  std::optional<uint64_t> computing, most, communicating;
};

std::vector<Step> sumUp(const capture::CollectorStats& s) {
  std::vector<Step> all;
  for (const auto& [number, ranks] : s.steps) {
    Step step;
    step.step = number;
    std::vector<uint64_t> took, computing, communicating;
    for (const auto& [rank, stats] : ranks) {
      if (stats.ns == 0) continue;
      took.push_back(stats.ns);
      if (stats.kernels + stats.collectives > 0) communicating.push_back(stats.communicating_ns);
      if (stats.kernels == 0) continue;
      computing.push_back(stats.computing_ns);
      if (stats.computing_ns >= step.most.value_or(0)) step.most = stats.computing_ns, step.busiest = rank;
    }
    if (took.empty()) continue;
    step.ranks = took.size();
    step.took = median(took);
    if (!computing.empty()) step.computing = median(computing);
    if (!communicating.empty()) step.communicating = median(communicating);
    all.push_back(step);
  }
  return all;
}

void printSteps(const std::vector<Step>& steps) {
  if (steps.empty()) return warn("no steps found: mark them with tracesmith.h, or with NVTX ranges named \"step 12\"");
  std::vector<std::vector<std::string>> table = {
      {"step", "ranks", "took", "computing", "most", "rank", "communicating"}};
  auto time = [](std::optional<uint64_t> ns) { return ns ? humanNs(static_cast<double>(*ns)) : "-"; };
  for (const Step& s : steps)
    table.push_back({std::to_string(s.step), std::to_string(s.ranks), time(s.took), time(s.computing), time(s.most),
                     s.busiest < 0 ? "-" : std::to_string(s.busiest), time(s.communicating)});
  std::fprintf(stderr, "%s", alignTable(table).c_str());
}

}  // namespace

std::string countsOf(const capture::CollectorStats& s) {
  return counted(s.records, "record") + " of " + counted(s.processes, "process", "processes") + ", " +
         counted(s.kernels, "kernel") + ", " + counted(s.collectives, "collective");
}

std::string jsonOf(const capture::CollectorStats& s, const std::string& output,
                   const std::function<void(JsonWriter&)>& more) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("file", output).field("processes", s.processes).field("records", s.records);
  w.field("kernels", s.kernels).field("collectives", s.collectives).field("lost", s.losses);
  if (more) more(w);
  w.endObject();
  return text;
}

void printSummary(const capture::CollectorStats& s, const RunSummary& o) {
  for (const std::string& n : s.notes) warn(n);
  if (s.processes == 0)
    warn("no process of the command used CUDA, NCCL, NVTX or tracesmith.h: the trace has no events");
  else if (s.simulated)
    warn("this is simulated data, not a measurement");
  else if (!s.saw_cuda)
    warn("no GPU records: the command did not use a GPU, or CUPTI could not be used");
  auto more = [&](JsonWriter& w) {
    if (o.watch) {
      w.key("watch");
      s.watched ? w.raw(capture::jsonOf(*s.watched)) : w.null();
    }
    if (o.per_step) {
      w.key("steps").beginArray();
      for (const Step& step : sumUp(s)) {
        w.beginObject().field("step", step.step).field("ranks", step.ranks).field("median_ns", step.took);
        auto time = [&](const char* name, std::optional<uint64_t> ns) {
          w.key(name);
          ns ? w.value(*ns) : w.null();
        };
        time("median_computing_ns", step.computing);
        time("most_computing_ns", step.most);
        w.key("most_computing_rank");
        step.busiest < 0 ? w.null() : w.value(step.busiest);
        time("median_communicating_ns", step.communicating);
        w.endObject();
      }
      w.endArray();
    }
  };
  if (o.json) {
    std::fprintf(stderr, "%s\n", jsonOf(s, o.output, more).c_str());
    return;
  }
  if (o.per_step) printSteps(sumUp(s));
  std::fprintf(stderr, "tracesmith: %s: %s%s\n", o.output.c_str(), countsOf(s).c_str(),
               s.losses ? (", " + humanCount(s.losses) + " lost (see the table losses)").c_str() : ", none lost");
  if (o.watch)
    std::fprintf(stderr, "tracesmith: watching: %s\n",
                 s.watched ? capture::sentenceOf(*s.watched).c_str() : "no process used CUDA");
}

}  // namespace tracesmith::cli
