#include "cli/mcp_tools.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "access/names.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "query/worker.hpp"
#include "trace/sql_columns.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;
using Type = ToolArgument::Type;
using Needs = Tool::Needs;
using Step = ToolPlan::Step;

constexpr size_t kMostListed = 500, kMostVisited = 100'000;  // traces; files
constexpr int64_t kMostRows = 5000;
constexpr uint64_t kQueryMemory = 1'000'000'000, kQuerySpill = 2'000'000'000;
constexpr std::string_view kSession = "session:";

const char* const kTraceHelp = "a file as list_traces gives it, or session:NAME of a session of the cluster";

std::string get(const ToolArguments& arguments, const char* name, const char* otherwise = "") {
  const auto it = arguments.find(name);
  return it == arguments.end() ? otherwise : it->second;
}

/// Where a trace that was named is. A session is fetched by a step before the others.
Result<std::string> traceOf(const std::string& name, const ToolPlaces& places, std::vector<Step>& steps) {
  if (name.starts_with(kSession)) {
    const std::string session = name.substr(kSession.size());
    TS_TRY(access::checkName("session", session));
    if (!places.cluster) return Status::invalid("there are no sessions: the server was started without --master");
    std::string path = places.temporary + "/" + session + ".sbt";
    steps.push_back({{"cluster", "recover", "--name", session, "--export", path, "--force"}, ""});
    return path;
  }
  std::error_code error;
  for (const std::string& folder : places.folders) {
    const fs::path path = fs::canonical(fs::path(folder) / name, error);  // an absolute name stays what it is
    if (error || !fs::is_regular_file(path, error)) continue;
    if (folder == "/" || path.string().starts_with(folder + "/")) return path.string();
    return Status::forbidden(name + " is not in a folder that this server was given");
  }
  return Status::notFound("no such trace: " + name + "; list_traces lists them");
}

/// A plan for one command about one trace: the words, with the trace behind them.
Result<ToolPlan> about(const std::string& trace, std::vector<std::string> words, const ToolPlaces& places) {
  ToolPlan plan;
  Result<std::string> path = traceOf(trace, places, plan.steps);
  if (!path) return path.status();
  words.push_back(*path);
  plan.steps.push_back({std::move(words), ""});
  return plan;
}

ToolPlan command(std::vector<std::string> words) {
  ToolPlan plan;
  plan.steps.push_back({std::move(words), ""});
  return plan;
}

bool json(const ToolArguments& a) { return get(a, "format") == "json"; }

Result<ToolPlan> listTraces(const ToolArguments&, const ToolPlaces& places) {
  struct Found {
    std::string path;
    uint64_t bytes;
    int64_t changed;  // Unix seconds
  };
  std::vector<Found> found;
  size_t visited = 0;
  std::error_code error;
  for (const std::string& folder : places.folders) {
    fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && it != end && ++visited < kMostVisited; it.increment(error)) {
      if (it->path().extension() != ".sbt" || !it->is_regular_file(error)) continue;
      const auto changed = std::chrono::file_clock::to_sys(it->last_write_time(error));
      found.push_back({it->path().string(), it->file_size(error),
                       std::chrono::duration_cast<std::chrono::seconds>(changed.time_since_epoch()).count()});
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(-a.changed, a.path) < std::pair(-b.changed, b.path);
  });
  ToolPlan plan;
  JsonWriter w(plan.text);
  w.beginObject().key("traces").beginArray();
  for (size_t i = 0; i < std::min(found.size(), kMostListed); ++i)
    w.beginObject()
        .field("trace", found[i].path)
        .field("bytes", found[i].bytes)
        .field("changed", timeText(found[i].changed * 1'000'000'000))
        .endObject();
  w.endArray().field("not_listed", static_cast<uint64_t>(found.size() - std::min(found.size(), kMostListed)));
  w.field("folders_searched_completely", visited < kMostVisited && !error).endObject();
  return plan;
}

Result<ToolPlan> tables(const ToolArguments& a, const ToolPlaces&) {
  const std::string wanted = get(a, "table");
  ToolPlan plan;
  for (const trace::TableInfo& table : trace::tables()) {
    if (wanted == table.name) {
      for (const trace::SqlColumn& c : trace::sqlColumns(table))
        plan.text += std::string(c.name) + " " + c.type + ": " + c.doc + "\n";
    } else if (wanted.empty()) {
      plan.text += std::string(table.name) + ": " + table.doc + "\n";
    }
  }
  if (plan.text.empty()) return Status::notFound("there is no table '" + wanted + "'; call tables without arguments");
  return plan;
}

Result<ToolPlan> query(const ToolArguments& a, const ToolPlaces& places) {
  ToolPlan plan;
  Result<std::string> path = traceOf(get(a, "trace"), places, plan.steps);
  if (!path) return path.status();
  if (!path->ends_with(".sbt")) return Status::invalid(*path + " is no trace yet: `tracesmith import` makes one of it");
  int64_t rows = 200;
  (void)parseInt(get(a, "max_rows", "200"), rows);
  if (rows < 1 || rows > kMostRows)
    return Status::invalid("max_rows must be between 1 and " + std::to_string(kMostRows));
  query::WorkerOptions worker;
  worker.trace = *path;
  worker.format = "csv";
  worker.max_rows = static_cast<uint64_t>(rows);
  worker.memory_bytes = kQueryMemory;
  worker.spill = places.temporary;
  worker.spill_bytes = kQuerySpill;
  worker.time_ms = std::llround(places.query_s * 1000);
  worker.parent = ::getpid();
  plan.steps.push_back({worker.toArguments(), get(a, "sql"), true});
  return plan;
}

Result<ToolPlan> analyze(const ToolArguments& a, const ToolPlaces& places) {
  std::vector<std::string> words = {"analyze"};
  if (json(a)) words.emplace_back("--json");
  return about(get(a, "trace"), std::move(words), places);
}

Result<ToolPlan> info(const ToolArguments& a, const ToolPlaces& places) {
  return about(get(a, "trace"), {"info", "--full"}, places);
}

Result<ToolPlan> compare(const ToolArguments& a, const ToolPlaces& places) {
  ToolPlan plan;
  Result<std::string> before = traceOf(get(a, "before"), places, plan.steps);
  if (!before) return before.status();
  Result<std::string> after = traceOf(get(a, "after"), places, plan.steps);
  if (!after) return after.status();
  plan.steps.push_back({{"diff", *before, *after}, ""});
  return plan;
}

Result<ToolPlan> runPlaybook(const ToolArguments& a, const ToolPlaces& places) {
  const std::string name = get(a, "playbook"), second = get(a, "after");
  TS_TRY(access::checkName("playbook", name));  // no files: those are for who starts the server
  if (name.ends_with(".sql")) return Status::notFound("there is no playbook '" + name + "'");
  ToolPlan plan;
  std::vector<std::string> words = {"playbook", name};
  for (const std::string& trace : {get(a, "trace"), second}) {
    if (trace.empty()) continue;
    Result<std::string> path = traceOf(trace, places, plan.steps);
    if (!path) return path.status();
    words.push_back(*path);
  }
  plan.steps.push_back({std::move(words), ""});
  return plan;
}

/// "-t TARGET", where one was named that is not an option.
Status addTarget(const ToolArguments& a, const ToolPlaces& places, std::vector<std::string>& words) {
  const std::string target = get(a, "target", "here");
  if (target.starts_with("-")) return Status::invalid("'" + target + "' is not a target");
  int64_t pid = 0;
  if (!places.cluster && target != "here" && !parseInt(target, pid))
    return Status::invalid("only this machine can be looked at: the server was started without --master");
  words.insert(words.end(), {"-t", target});
  return {};
}

Result<ToolPlan> processes(const ToolArguments& a, const ToolPlaces& places) {
  std::vector<std::string> words = {"ps"};
  TS_TRY(addTarget(a, places, words));
  return command(std::move(words));
}

Result<ToolPlan> stacks(const ToolArguments& a, const ToolPlaces& places) {
  std::vector<std::string> words = {"backtrace"};
  TS_TRY(addTarget(a, places, words));
  if (words.back() == "here") words.emplace_back("--all");
  return command(std::move(words));
}

Result<ToolPlan> startSession(const ToolArguments& a, const ToolPlaces&) {
  const std::string name = get(a, "name");
  TS_TRY(access::checkName("session", name));
  std::vector<std::string> words = {"cluster", "start", "--name", name};
  if (const std::string seconds = get(a, "seconds"); !seconds.empty())
    words.insert(words.end(), {"--duration", seconds});
  return command(std::move(words));
}

Result<ToolPlan> stopSession(const ToolArguments& a, const ToolPlaces&) {
  const std::string name = get(a, "name");
  TS_TRY(access::checkName("session", name));
  return command({"cluster", "stop", "--name", name});
}

}  // namespace

const std::vector<Tool>& tools() {
  static const ToolArgument kTrace = {"trace", Type::text, true, kTraceHelp};
  static const ToolArgument kTarget = {"target", Type::text, false,
                                       "a process id, here (the default), or of a cluster: rank:R, node:NAME or all"};
  static const std::vector<Tool> all = {
      {"list_traces",
       "List traces",
       "Lists the recorded traces in the folders of this server, the newest first.",
       Needs::nothing,
       {},
       listTraces},
      {"trace_info",
       "Summarize a trace",
       "Tells what a trace contains: nodes, ranks, steps, tables with their sizes, and what was lost.",
       Needs::nothing,
       {kTrace},
       info},
      {"analyze",
       "Find what costs time",
       "Analyzes a trace of a training job: which rank or link made the others wait and why, where the time of a step "
       "goes, and what the job would gain if something changed. Ask this before SQL.",
       Needs::nothing,
       {kTrace, {"format", Type::text, false, "text (the default) or json, which is much longer"}},
       analyze},
      {"compare",
       "Compare two traces",
       "Tells what changed between two traces of a job, on which ranks, and whether it is more than chance.",
       Needs::nothing,
       {{"before", Type::text, true, kTraceHelp}, {"after", Type::text, true, kTraceHelp}},
       compare},
      {"playbooks",
       "List playbooks",
       "Lists questions about a job that have a ready answer.",
       Needs::nothing,
       {},
       [](const ToolArguments&, const ToolPlaces&) -> Result<ToolPlan> { return command({"playbook"}); }},
      {"run_playbook",
       "Run a playbook",
       "Answers one of these questions from a trace: a finding, and the tables it rests on.",
       Needs::nothing,
       {{"playbook", Type::text, true, "name, as playbooks lists it"},
        kTrace,
        {"after", Type::text, false, "the later trace, for a playbook that takes two"}},
       runPlaybook},
      {"tables",
       "List tables and columns",
       "Lists the tables that SQL can read, or the columns of one table with their meaning.",
       Needs::nothing,
       {{"table", Type::text, false, "a table whose columns are wanted"}},
       tables},
      {"query",
       "Run SQL",
       "Runs one SQL statement (DuckDB's dialect) over a trace and returns CSV. It can only read. Times are in "
       "nanoseconds.",
       Needs::nothing,
       {kTrace,
        {"sql", Type::text, true, "one statement that reads"},
        {"max_rows", Type::integer, false, "rows to return, at most 5000; the default is 200"}},
       query},
      {"processes",
       "List processes",
       "Lists the running processes of jobs, with their ranks and GPUs.",
       Needs::nothing,
       {kTarget},
       processes},
      {"stacks",
       "Show stacks",
       "Shows what running processes are doing now: the Python stacks of their threads.",
       Needs::nothing,
       {kTarget},
       stacks},
      {"hangs",
       "Look for a hang",
       "Tells whether the running job hangs, and which ranks the others wait for.",
       Needs::cluster,
       {},
       [](const ToolArguments&, const ToolPlaces&) -> Result<ToolPlan> {
         return command({"cluster", "hang"});
       }},
      {"cluster_status",
       "Show the cluster",
       "Shows nodes, clocks, sessions and the master's store.",
       Needs::cluster,
       {},
       [](const ToolArguments&, const ToolPlaces&) -> Result<ToolPlan> {
         return command({"cluster", "status"});
       }},
      {"list_sessions",
       "List sessions",
       "Lists the recorded sessions of the cluster. Other tools take them as session:NAME.",
       Needs::cluster,
       {},
       [](const ToolArguments&, const ToolPlaces&) -> Result<ToolPlan> {
         return command({"cluster", "sessions"});
       }},
      {"start_session",
       "Start a session",
       "Starts to record all nodes of the cluster.",
       Needs::control,
       {{"name", Type::text, true, "name of the session"},
        {"seconds", Type::integer, false, "end after so many seconds; without it, stop_session ends it"}},
       startSession},
      {"stop_session",
       "Stop a session",
       "Ends a session; what was recorded stays.",
       Needs::control,
       {{"name", Type::text, true, "name of the session"}},
       stopSession},
  };
  return all;
}

}  // namespace tracesmith::cli
