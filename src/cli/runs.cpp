// tracesmith runs: the recordings of a job over time. Which was the first that was slower, and what changed with it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/count.hpp"
#include "base/progress.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "trace/rows.hpp"
#include "tracesmith/analysis/diff.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;
using trace::kNull;

constexpr double kLeast = 0.03;  // smallest change of a step that counts, where runs do not differ by more anyway
constexpr double kSpreads = 4;   // or so many times the spread of the runs before

struct Options {
  std::string folder = ".", job;
  bool json = false, nodes = false;
};

/// What a recording says against a node.
struct NodeRecord {
  uint64_t blamed = 0, xids = 0;  // ranks of it that made others wait by their own work; XID errors of its GPUs
};

/// One recording.
struct Run {
  std::string path, job;
  int64_t at_ns = 0;
  int ranks = 0;
  double step_us = NAN, compute_us = NAN, exposed_us = NAN, idle_us = NAN;  // of a step, the median over ranks
  std::string verdict;
  int64_t slow = kNull;  // the rank that the others waited for most, by its own work
  double slowdown = NAN, slow_cost_us = NAN;
  std::map<std::string, NodeRecord> nodes;
};

/// What the job is: how it was started. Recordings of one job have the same.
Result<std::string> jobOf(const trace::Reader& reader) {
  std::string session, process;
  TS_TRY(trace::forEachRow(reader, trace::tableOf<trace::SessionRow>(), {}, {}, [&](const trace::Row& r) {
    if (session.empty()) session = std::string(r.text(trace::sessions::command));
    return Status();
  }));
  TS_TRY(trace::forEachRow(reader, trace::tableOf<trace::ProcessRow>(), {}, {}, [&](const trace::Row& r) {
    if (process.empty() && r.slot(trace::processes::rank) != kNull)
      process = std::string(r.text(trace::processes::command));
    return Status();
  }));
  // What a session was recorded with is often our own command; what a rank runs is the job's.
  return process.empty() ? session : process;
}

/// The nodes of a recording, and the XID errors of their GPUs.
Status readNodes(const trace::Reader& reader, std::map<std::string, NodeRecord>& nodes) {
  TS_TRY(trace::forEachRow(reader, trace::tableOf<trace::NodeRow>(), {}, {}, [&](const trace::Row& r) {
    if (const auto name = r.text(trace::nodes::node); !name.empty()) nodes.try_emplace(std::string(name));
    return Status();
  }));
  return trace::forEachRow(reader, trace::tableOf<trace::MetricRow>(), {}, {}, [&](const trace::Row& r) {
    if (r.text(trace::metrics::name) == "gpu_xid") ++nodes[std::string(r.text(trace::metrics::node))].xids;
    return Status();
  });
}

Result<Run> readRun(const std::string& path) {
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!reader) return reader.status();
  Run run;
  run.path = path;
  run.at_ns = (*reader)->createdNs();
  Result<std::string> job = jobOf(**reader);
  if (!job) return job.status();
  run.job = *job;
  analysis::AnalyzeOptions options;
  options.hta = false;
  options.collectives = false;
  Result<analysis::Analysis> found = analysis::analyze(**reader, options);
  if (!found) return found.status();
  run.ranks = static_cast<int>(found->ranks);
  run.step_us = found->step_us;
  run.verdict = found->verdict.text;
  TS_TRY(readNodes(**reader, run.nodes));
  for (const auto& blame : found->blame) {
    if (!blame.significant) continue;
    if (!blame.node.empty()) ++run.nodes[blame.node].blamed;
    if (blame.cost_us <= run.slow_cost_us) continue;
    run.slow = blame.rank;
    run.slowdown = blame.slowdown;
    run.slow_cost_us = blame.cost_us;
  }
  std::vector<double> compute, exposed, idle;
  for (const auto& b : found->breakdown) {
    compute.push_back(b.compute_us);
    exposed.push_back(b.exposed_comm_us);
    idle.push_back(b.idle_us);
  }
  run.compute_us = median(compute);
  run.exposed_us = median(exposed);
  run.idle_us = median(idle);
  return run;
}

/// Whether a step is slower than those before: by more than chance among them.
bool isSlower(const std::vector<double>& before, double step_us) {
  const double usual = median(before);
  std::vector<double> distances;
  for (double v : before) distances.push_back(std::abs(v - usual));
  // The median distance understates the spread of few values; of normal values it is 0.67 of it.
  const double spread = before.size() < 3 ? 0 : median(distances) / 0.67;
  return step_us - usual > std::max(kLeast * usual, kSpreads * spread);
}

/// How far values are from their median, in all.
double apart(const std::vector<double>& values) {
  const double middle = median(values);
  double sum = 0;
  for (const double v : values) sum += std::abs(v - middle);
  return sum;
}

/// The first run of those that are slower than the ones before, as an index; none: the last one is not slower. Of all
/// places to divide the runs, the one where both sides differ least among themselves.
std::optional<size_t> firstSlower(const std::vector<Run>& runs) {
  std::vector<double> steps;
  for (const Run& r : runs) steps.push_back(r.step_us);
  std::optional<size_t> best;
  double least = 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    const auto at = steps.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<double> before(steps.begin(), at), after(at, steps.end());
    const double sum = apart(before) + apart(after);
    if (!isSlower(before, median(after)) || !isSlower(before, steps.back()) || (best && sum >= least)) continue;
    best = i;
    least = sum;
  }
  return best;
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * part);
  return std::isfinite(part) ? text : "unknown";
}

std::string us(double value) { return std::isfinite(value) ? humanNs(value * 1000) : "unknown"; }

struct Job {
  std::string name;
  std::vector<Run> runs;  // with steps, the oldest first
  std::optional<size_t> slower;
  std::optional<analysis::Diff> change;  // from the run before the first slower one to that
  std::string problem;                   // why there is no `change`
};

void compare(Job& job) {
  job.slower = firstSlower(job.runs);
  if (!job.slower) return;
  const std::string &a = job.runs[*job.slower - 1].path, &b = job.runs[*job.slower].path;
  Result<std::unique_ptr<trace::Reader>> before = trace::Reader::open(a), after = trace::Reader::open(b);
  if (!before || !after) {
    job.problem = (before ? after : before).status().message();
    return;
  }
  Result<analysis::Diff> diff = analysis::diff(**before, **after);
  if (diff)
    job.change = std::move(*diff);
  else
    job.problem = diff.status().message();
}

void printJob(const Job& job) {
  std::printf("%s\n", job.name.empty() ? "job of unknown command" : shorten(printable(job.name), 100).c_str());
  std::vector<std::vector<std::string>> rows = {
      {"recording", "made", "ranks", "step", "against before", "computation", "communication", "idle", "waited for"}};
  std::vector<double> before;
  for (const Run& r : job.runs) {
    rows.push_back({fs::path(r.path).filename().string(), timeText(r.at_ns), std::to_string(r.ranks), us(r.step_us),
                    before.empty() ? "" : percent(r.step_us / median(before) - 1), us(r.compute_us), us(r.exposed_us),
                    us(r.idle_us),
                    r.slow == kNull ? "nobody"
                    : std::isfinite(r.slowdown)
                        ? "rank " + std::to_string(r.slow) + " (" + percent(r.slowdown - 1) + ")"
                        : "rank " + std::to_string(r.slow)});
    before.push_back(r.step_us);
  }
  std::printf("%s", alignTable(rows, "  ").c_str());
  if (job.runs.size() < 2) {
    std::printf("  There is nothing to compare it with yet.\n");
    return;
  }
  if (!job.slower) {
    std::printf("  The last one is not slower than those before.\n");
    return;
  }
  const Run& first = job.runs[*job.slower];
  std::printf("  %s was the first that was slower.\n", fs::path(first.path).filename().c_str());
  if (!job.problem.empty()) warn(job.problem);
  if (!job.change) return;
  std::printf("  %s\n", printable(job.change->verdict).c_str());
  for (const std::string& s : job.change->differs) std::printf("    differs: %s\n", printable(s).c_str());
  if (job.change->differs.empty()) std::printf("    Versions and settings in the recordings are the same.\n");
  int shown = 0;
  for (const analysis::DiffPart& p : job.change->parts)
    if (p.significant && ++shown <= 8)
      std::printf("    %s of %s: %s before, %s after\n", p.what.c_str(),
                  p.rank == kNull ? "all ranks" : ("rank " + std::to_string(p.rank)).c_str(), us(p.before_us).c_str(),
                  us(p.after_us).c_str());
}

void writeNumber(JsonWriter& w, const char* key, double value) { w.key(key).value(value); }

std::string toJson(const std::vector<Job>& jobs) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("jobs").beginArray();
  for (const Job& job : jobs) {
    w.beginObject().field("command", job.name).key("runs").beginArray();
    for (const Run& r : job.runs) {
      w.beginObject().field("file", r.path).field("created_ns", std::to_string(r.at_ns)).field("ranks", r.ranks);
      writeNumber(w, "step_us", r.step_us);
      writeNumber(w, "compute_us", r.compute_us);
      writeNumber(w, "exposed_comm_us", r.exposed_us);
      writeNumber(w, "idle_us", r.idle_us);
      w.key("waited_for");
      r.slow == kNull ? w.null() : w.value(r.slow);
      writeNumber(w, "slowdown", r.slowdown);
      w.field("verdict", r.verdict).endObject();
    }
    w.endArray().key("first_slower");
    job.slower ? w.value(job.runs[*job.slower].path) : w.null();
    w.key("compared_with");
    job.slower ? w.value(job.runs[*job.slower - 1].path) : w.null();
    w.key("change");
    if (job.change)
      w.raw(analysis::toJson(*job.change, job.runs[*job.slower - 1].path, job.runs[*job.slower].path));
    else
      w.null();
    w.endObject();
  }
  w.endArray().endObject();
  return text + "\n";
}

/// All recordings by node, the ones with most against them first.
struct NodeHistory {
  std::string node;
  uint64_t recordings = 0, blamed_in = 0, xids = 0;
  std::string last_blamed;  // recording
};

std::vector<NodeHistory> historyOf(const std::vector<Job>& jobs) {
  std::map<std::string, NodeHistory> by_node;
  std::vector<const Run*> runs;
  for (const Job& job : jobs)
    for (const Run& r : job.runs) runs.push_back(&r);
  std::stable_sort(runs.begin(), runs.end(), [](const Run* a, const Run* b) { return a->at_ns < b->at_ns; });
  for (const Run* r : runs)
    for (const auto& [name, record] : r->nodes) {
      NodeHistory& h = by_node[name];
      h.node = name;
      ++h.recordings;
      h.xids += record.xids;
      if (record.blamed == 0) continue;
      ++h.blamed_in;
      h.last_blamed = r->path;
    }
  std::vector<NodeHistory> all;
  for (auto& [name, history] : by_node) all.push_back(std::move(history));
  std::stable_sort(all.begin(), all.end(), [](const NodeHistory& a, const NodeHistory& b) {
    return a.blamed_in + a.xids > b.blamed_in + b.xids;
  });
  return all;
}

void printHistory(const std::vector<NodeHistory>& all, bool json) {
  std::string text;
  if (json) {
    JsonWriter w(text);
    w.beginObject().key("nodes").beginArray();
    for (const NodeHistory& h : all) {
      w.beginObject().field("node", h.node).field("recordings", h.recordings).field("blamed_in", h.blamed_in);
      w.field("xids", h.xids).key("last_blamed");
      h.last_blamed.empty() ? w.null() : w.value(h.last_blamed);
      w.endObject();
    }
    w.endArray().endObject();
    text += "\n";
  } else {
    std::vector<std::vector<std::string>> rows = {
        {"node", "recordings", "others waited in", "XID errors", "the last time"}};
    for (const NodeHistory& h : all)
      rows.push_back({printable(h.node), std::to_string(h.recordings), std::to_string(h.blamed_in),
                      std::to_string(h.xids),
                      h.last_blamed.empty() ? "" : fs::path(h.last_blamed).filename().string()});
    text = alignTable(rows);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int run(const Options& o) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(o.folder, error))
    if (entry.path().extension() == ".sbt" && entry.is_regular_file(error)) paths.push_back(entry.path().string());
  if (error) return fail(Status::io("cannot read the folder " + o.folder + ": " + error.message()));
  if (paths.empty()) return fail(Status::notFound(o.folder + " holds no recordings (*.sbt)"));
  std::sort(paths.begin(), paths.end());
  std::map<std::string, Job> by_name;
  size_t without_steps = 0;
  {
    std::optional<Progress> progress;
    if (!o.json) progress.emplace("analyzing");
    for (size_t i = 0; i < paths.size(); ++i) {
      if (progress) progress->update(i, paths.size());
      Result<Run> run = readRun(paths[i]);
      if (!run) {
        warn(run.status().message());
        continue;
      }
      if (!o.job.empty() && run->job.find(o.job) == std::string::npos) continue;
      if (!std::isfinite(run->step_us) || run->step_us <= 0) {
        ++without_steps;
        continue;
      }
      by_name[run->job].runs.push_back(std::move(*run));
    }
  }
  std::vector<Job> jobs;
  for (auto& [name, job] : by_name) {
    job.name = name;
    std::stable_sort(job.runs.begin(), job.runs.end(), [](const Run& a, const Run& b) { return a.at_ns < b.at_ns; });
    if (!o.nodes) compare(job);
    jobs.push_back(std::move(job));
  }
  if (without_steps > 0) warn(counted(without_steps, "recording") + " without steps: not compared");
  if (o.nodes) {
    printHistory(historyOf(jobs), o.json);
    return 0;
  }
  if (o.json) {
    const std::string text = toJson(jobs);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (i > 0) std::printf("\n");
    printJob(jobs[i]);
  }
  if (jobs.empty()) std::printf("no recordings with steps%s\n", o.job.empty() ? "" : " of such a job");
  return 0;
}

}  // namespace

void addRuns(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("runs", "Compare the recordings of a job over time: which was the first slower one");
  command.positional("FOLDER", o->folder, "Folder with recordings (default: the current one)").type("FOLDER");
  command.option("--job", o->job, "Only jobs whose command contains this text").type("TEXT");
  command.flag("--nodes", o->nodes, "Print what the recordings say of each node instead, repeat offenders first");
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "Recordings of the same command are one job. A recording is slower when its median step is longer than those\n"
      "before by more than they differ among themselves, and by 3 % at least. What changed is told as `tracesmith "
      "diff`\ntells it.\n\nExample:  tracesmith runs ~/traces --job train.py");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
