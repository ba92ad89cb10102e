// tracesmith cluster plans: the jobs that are balanced, and what may be changed about them.
#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using namespace model;

struct Options : ClientCommand {
  std::string undo, job, dry_run;
};

std::string text(const char* format, double value) {
  char out[64];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

std::string percent(double part) { return text("%.0f %%", 100 * part); }

std::string gainOf(const JobPlan& plan) {
  if (!plan.before_s || !plan.after_s) return "";
  return " (predicted: " + percent(1 - *plan.after_s / *plan.before_s) + " less time a step)";
}

void printPlan(const char* what, const JobPlan& plan) {
  std::string name = plan.version == 0 ? "equal batches" : "plan " + std::to_string(plan.version);
  if (plan.from_step && *plan.from_step > 0) name += " from step " + std::to_string(*plan.from_step);
  std::printf("  %-9s %s%s\n", what, name.c_str(), gainOf(plan).c_str());
  if (!plan.reason.empty()) std::printf("            %s\n", plan.reason.c_str());
}

std::string batchOf(const std::optional<JobPlan>& plan, size_t rank) {
  return plan && rank < plan->ranks.size() ? std::to_string(plan->ranks[rank].batch) : "";
}

const char* whoPlans(Coordination coordination) {
  switch (coordination) {
    case Coordination::rank:
      return "its rank 0 makes the plans";
    case Coordination::master:
      return "the master makes the plans";
    case Coordination::workers:
      return "the master makes the plans; workers report over HTTP";
  }
  return "";
}

void print(const BalancedJob& job) {
  std::printf("job %s: %s, %lld samples a step; %s%s\n", job.terms.job.c_str(),
              (std::to_string(job.terms.ranks) + (job.terms.ranks == 1 ? " rank" : " ranks")).c_str(),
              static_cast<long long>(job.terms.total), whoPlans(job.terms.coordination),
              job.terms.dry_run ? " (dry run: only told)" : "");
  if (job.step) std::printf("  step      %lld\n", static_cast<long long>(*job.step));
  if (!job.rates.empty())
    std::printf("  speed     %s samples/s; %s at the beginning\n", text("%.4g", job.rates.back().samples_per_s).c_str(),
                text("%.4g", job.rates.front().samples_per_s).c_str());
  printPlan("in force", job.plan);
  if (job.before) printPlan("before", *job.before);
  if (job.next) printPlan("next", *job.next);
  for (const JobOutcome& o : job.outcomes)
    std::printf("  gain      plan %lld: steps are %s %s; predicted were %s\n", static_cast<long long>(o.version),
                percent(std::abs(o.real_gain)).c_str(), o.real_gain < 0 ? "longer" : "shorter",
                percent(o.predicted_gain).c_str());
  if (!job.problem.empty()) std::printf("  problem   %s\n", job.problem.c_str());
  if (job.silent_s > 10) std::printf("  silent    for %s\n", humanNs(job.silent_s * 1e9).c_str());
  std::vector<std::vector<std::string>> rows = {{"rank", "node", "samples/s", "busy", "batch", "before", "next"}};
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const BalancedRank& rank = job.ranks[r];
    rows.push_back({std::to_string(rank.rank), rank.node, rank.samples_per_s ? text("%.4g", *rank.samples_per_s) : "",
                    rank.busy_s ? humanNs(*rank.busy_s * 1e9) : "", batchOf(job.plan, r), batchOf(job.before, r),
                    batchOf(job.next, r)});
  }
  std::printf("%s", tableText(rows).c_str());
}

/// What was changed, for people or as JSON.
int changed(const Options& o, const std::string& job, const std::string& sentence) {
  std::string json;
  JsonWriter(json).beginObject().field("job", job).endObject();
  std::printf("%s\n", o.json ? json.c_str() : sentence.c_str());
  return 0;
}

int plans(const Options& o) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  if (!o.undo.empty()) {
    if (const Status s = (*client)->undoPlan(o.undo); !s) return fail(s);
    return changed(o, o.undo, "job " + o.undo + " goes back to the plan before");
  }
  if (!o.dry_run.empty()) {
    if (const Status s = (*client)->setDryRun(o.job, o.dry_run == "on"); !s) return fail(s);
    return changed(o, o.job, "plans of job " + o.job + (o.dry_run == "on" ? " are only told" : " are followed"));
  }
  const Result<BalanceStatus> status = (*client)->plans();
  if (!status) return fail(status.status());
  if (o.json) {
    std::printf("%s\n", toJson(*status).c_str());
    return 0;
  }
  if (status->jobs.empty())
    std::printf("no job is being balanced: use tracesmith.balance in a training script, or POST /api/v1/ingest\n");
  for (const BalancedJob& job : status->jobs)
    if (o.job.empty() || job.terms.job == o.job) print(job);
  return 0;
}

}  // namespace

void addClusterPlans(Command& cluster) {
  auto o = std::make_shared<Options>();
  Command command = cluster.command("plans", "Show the jobs that are balanced: speed of ranks, plans, gains");
  o->add(command);
  command.option("--job", o->job, "Only this job").type("ID");
  command.option("--undo", o->undo, "Return to the previous plan (operator)").type("ID");
  command
      .option("--dry-run", o->dry_run,
              "Show the plans of --job without following them (on), or follow them again (off; operator)")
      .type("on|off");
  command.footer(
      "Example:  tracesmith cluster plans\n"
      "          tracesmith cluster plans --job 3f2a9c0d11e84b5f --dry-run on");
  command.run(
      [o]() -> Status {
        if (o->dry_run.empty()) return {};
        if (o->dry_run != "on" && o->dry_run != "off") return Status::invalid("--dry-run takes on or off");
        return o->job.empty() ? Status::invalid("--dry-run needs --job ID") : Status();
      },
      [o] { return plans(*o); });
}

}  // namespace tracesmith::cli
