// tracesmith cluster record, start, stop, sessions, recover.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "analysis/clocks/clock_refine.hpp"
#include "base/count.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/recording.hpp"
#include "cli/slurm_job.hpp"
#include "cli/terminal.hpp"
#include "cluster/fetch_frames.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using cluster::Client;
using cluster::SessionInfo;
using model::SessionState;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kAskSlurm = std::chrono::seconds(2);  // often asked, slurmctld is slow for everybody

// Ctrl-C: the first ends the recording and keeps what there is, the second leaves that to the master, the third kills.
std::atomic<int> g_signals{0};

void catchSignals() {
  for (int n : {SIGINT, SIGTERM})
    ::signal(n, [](int number) {
      if (++g_signals > 1) ::signal(number, SIG_DFL);
    });
}

struct Options : ClientCommand {
  cluster::StartOptions start;
  std::string output, name, id, keep, slurm;
  std::vector<std::string> nodes;  // of which the trace is wanted; empty: of all
  double wait_s = 30;
  bool list = false, force = false;
};

Result<SessionInfo> startSession(Client& client, const Options& o) {
  cluster::StartOptions start = o.start;
  if (!o.keep.empty()) fromName(o.keep, start.keep);
  return client.start(start);
}

void print(const SessionInfo& s) {
  std::printf("session %s (%s): %s since %s, %s\n", s.name.c_str(), s.id.c_str(), nameOf(s.state),
              timeText(s.start_ns).c_str(), counted(s.nodes.size(), "node").c_str());
}

/// Waits until every node has delivered, or the time is over. What is missing is named.
Result<SessionInfo> settle(Client& client, const std::string& id, double wait_s, Progress& progress) {
  const auto began = Clock::now();
  for (;;) {
    Result<std::vector<SessionInfo>> all = client.sessions();
    if (!all) return all.status();
    for (const SessionInfo& s : *all) {
      if (s.id != id) continue;
      const double waited = std::chrono::duration<double>(Clock::now() - began).count();
      // An unhealthy node may come back, but nobody knows when: the others are waited for.
      if (s.state == SessionState::complete || s.state == SessionState::incomplete || waited > wait_s || g_signals > 1)
        return s;
      progress.update(static_cast<uint64_t>(waited * 10), static_cast<uint64_t>(wait_s * 10));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void warnIncomplete(const SessionInfo& s) {
  if (s.state == SessionState::recording) return;
  for (const cluster::SessionNode& n : s.nodes)
    if (!n.complete)
      warn("node " + n.node + (n.healthy ? " has not delivered all its data" : " does not answer") +
           ": its data is incomplete");
}

/// A name may be used again: whoever gives one must know which session it stands for.
void warnOfNamesakes(const std::vector<SessionInfo>& all, const SessionInfo& session, const std::string& says) {
  const auto same = std::count_if(all.begin(), all.end(), [&](const SessionInfo& s) { return s.name == session.name; });
  if (same > 1)
    warn(says + " " + counted(static_cast<uint64_t>(same), "session") + " named " + session.name +
         ": `cluster sessions` lists their ids, and --id chooses one");
}

/// Fetches a session as .sbt, or as frames where the file is called .json.
Status save(Client& client, const SessionInfo& s, const Options& o) {
  const std::string& path = o.output;
  Progress progress("fetching");
  auto update = [&](uint64_t bytes) {
    progress.update(bytes, std::max<uint64_t>(s.bytes, bytes + 1));
    if (g_signals > 1) client.cancel();
    return g_signals < 2;
  };
  if (path.ends_with(".json")) return cluster::fetchFrames(client, s.id, path, update, o.nodes);
  TS_TRY(client.fetch(s.id, path, update, o.nodes));
  Result<analysis::Refinement> refined = analysis::storeRefinedClocks(path);
  if (!refined) return refined.status();
  for (const std::string& fault : refined->faults) warn("clock fault: " + fault);
  return {};
}

int finish(const Options& o, const SessionInfo& s) {
  warnIncomplete(s);
  if (o.json)
    std::printf("%s\n", model::toJson(s).c_str());
  else if (o.output.empty())
    print(s);
  else
    std::printf("%s: session %s, %s, %s, %s\n", o.output.c_str(), s.name.c_str(),
                s.end_ns ? humanNs(static_cast<double>(s.end_ns - s.start_ns)).c_str() : "not ended",
                counted(s.nodes.size(), "node").c_str(), nameOf(s.state));
  return 0;
}

/// Waits for a session that has ended, fetches it if a file is wanted, and says how it went.
int collect(Client& client, const Options& o, const SessionInfo& session) {
  Result<SessionInfo> settled = session;
  Status status;
  {
    Progress progress("collecting");
    settled = settle(client, session.id, o.wait_s, progress);
  }
  if (settled && !o.output.empty() && g_signals < 2) status = save(client, *settled, o);
  if (g_signals > 1) {
    warn("session " + session.name + " is left to the master, which keeps what the nodes deliver: get it with " +
         "`tracesmith cluster recover --id " + session.id + " --export FILE`");
    return 130;  // as of a program that Ctrl-C ended
  }
  if (!settled) return fail(settled.status());
  return status ? finish(o, *settled) : fail(status);
}

/// Leaves those nodes of a session that a Slurm job runs on, and names those of the job that are missing.
Status chooseNodes(const SlurmJob& job, const SessionInfo& session, Options& o) {
  SlurmJob missing = job;
  for (const cluster::SessionNode& n : session.nodes) {
    if (!job.has(n.node)) continue;
    o.nodes.push_back(n.node);
    std::erase_if(missing.nodes, [&](const std::string& name) { return SlurmJob{{}, {}, {name}}.has(n.node); });
  }
  for (const std::string& name : missing.nodes)
    warn("node " + name + " of job " + job.id + " has no agent: it is not recorded");
  return o.nodes.empty() ? Status::notFound("no node of job " + job.id + " has an agent") : Status();
}

bool jobEnded(const Options& o) {
  const Result<SlurmJob> job = slurmJob(o.slurm);
  return job && !job->running();
}

int record(const Options& given) {
  Options o = given;
  SlurmJob job;
  if (!o.slurm.empty()) {
    Result<SlurmJob> found = slurmJob(o.slurm);
    if (!found) return fail(found.status());
    job = std::move(*found);
    if (!job.running())
      return fail(Status::notFound(
          "job " + o.slurm + (job.state.empty() ? " is not known to Slurm" : " is not running: it is " + job.state)));
    if (o.start.name.empty()) o.start.name = "slurm-" + o.slurm;
  }
  const bool until_end = !o.slurm.empty() && o.start.duration_s == 0 && o.start.last_s == 0;
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  catchSignals();
  Result<SessionInfo> session = startSession(**client, o);
  if (!session) return fail(session.status());
  if (session->nodes.empty()) {
    (void)(*client)->stop(session->id);
    return fail(Status::notFound("no healthy node to record"));
  }
  if (!o.slurm.empty())
    if (Status chosen = chooseNodes(job, *session, o); !chosen) {
      (void)(*client)->stop(session->id);
      return fail(chosen);
    }
  if (until_end) {
    auto asked = Clock::now();
    while (g_signals == 0) {
      std::this_thread::sleep_for(kPoll);
      if (Clock::now() - asked < kAskSlurm) continue;
      if (jobEnded(o)) break;
      asked = Clock::now();
    }
  } else {
    Progress progress("recording");
    const auto began = Clock::now();
    const auto span = std::chrono::duration<double>(o.start.duration_s);
    while (g_signals == 0 && Clock::now() - began < span) {
      progress.update(static_cast<uint64_t>((Clock::now() - began).count()), static_cast<uint64_t>(span.count() * 1e9));
      std::this_thread::sleep_for(
          std::min<Clock::duration>(kPoll, std::chrono::duration_cast<Clock::duration>(span) - (Clock::now() - began)));
    }
  }
  if (g_signals > 0 || until_end)
    if (Result<std::vector<SessionInfo>> stopped = (*client)->stop(session->id); !stopped)
      warn("session " + session->name + " could not be stopped and ends by itself: " + stopped.status().message());
  return collect(**client, o, *session);
}

int start(const Options& o) {
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<SessionInfo> session = startSession(**client, o);
  if (!session) return fail(session.status());
  if (const Result<std::vector<SessionInfo>> all = (*client)->sessions())
    warnOfNamesakes(*all, *session, "there are now");
  return finish(o, *session);
}

int stop(const Options& o) {
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<std::vector<SessionInfo>> stopped = (*client)->stop(o.name);
  if (!stopped) return fail(stopped.status());
  if (!o.output.empty() && stopped->size() != 1)
    return fail(Status::invalid(
        "several sessions were stopped; export each one with `cluster recover --name NAME --export FILE`"));
  g_signals = 1;  // it is stopped
  catchSignals();
  for (const SessionInfo& s : *stopped)
    if (int code = collect(**client, o, s)) return code;
  return 0;
}

int sessions(const Options& o) {
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<std::vector<SessionInfo>> all = (*client)->sessions();
  if (!all) return fail(all.status());
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().key("sessions").beginArray();
    for (const SessionInfo& s : *all) writeJson(w, s);
    w.endArray().endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  if (all->empty()) {
    std::printf("no sessions yet; start one with `tracesmith cluster start --name NAME`\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"name", "id", "state", "start", "length", "nodes", "keep", "stored"}};
  for (const SessionInfo& s : *all)
    rows.push_back({s.name, s.id, nameOf(s.state), timeText(s.start_ns),
                    s.end_ns ? humanNs(static_cast<double>(s.end_ns - s.start_ns)) : "recording",
                    std::to_string(s.nodes.size()), nameOf(s.keep), humanBytes(s.bytes)});
  std::printf("%s", tableText(rows).c_str());
  return 0;
}

int recover(const Options& o) {
  if (o.list) return sessions(o);
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  const std::string& wanted = o.id.empty() ? o.name : o.id;
  if (o.output.empty()) {
    Result<SessionInfo> resumed = (*client)->resume(wanted);
    if (!resumed) return fail(resumed.status());
    return finish(o, *resumed);
  }
  Result<std::vector<SessionInfo>> all = (*client)->sessions();
  if (!all) return fail(all.status());
  const SessionInfo* found = nullptr;
  for (const SessionInfo& s : *all)
    if (s.id == wanted || (s.name == wanted && (!found || found->start_ns < s.start_ns))) found = &s;
  if (!found) return fail(Status::notFound("there is no session " + wanted));
  if (found->id != wanted) warnOfNamesakes(*all, *found, "this is the newest of");
  if (Status s = save(**client, *found, o); !s) return fail(s);
  return finish(o, *found);
}

void addStart(Command& command, Options& o) {
  command.option("--name", o.start.name, "Name of the session (default: generated)").type("NAME");
  command.option("--freq", o.start.freq_ms, "Interval of telemetry, in milliseconds")
      .type("MS")
      .check(range(10, 3600000));
  Recording::addKeep(command, o.keep);
}

}  // namespace

void addClusterSessions(Command& cluster) {
  auto make = [&](const char* name, const char* text, int (*work)(const Options&)) {
    auto o = std::make_shared<Options>();
    Command command = cluster.command(name, text);
    o->add(command);
    command.run([o, work] { return work(*o); });
    return std::pair(command, o);
  };
  {
    auto [command, o] = make("record", "Record all nodes and write one trace", record);
    addStart(command, *o);
    command.option("-o,--output", o->output, "Trace to write (.sbt), or frames (.json)").required().type("FILE");
    command.option("-d,--duration", o->start.duration_s, "Record the next SECONDS")
        .type("SECONDS")
        .check(range(0.001, 1e8));
    command.option("--last", o->start.last_s, "Start SECONDS ago, as far back as the rings reach")
        .type("SECONDS")
        .check(range(0.001, 1e6));
    command.option("--wait", o->wait_s, "Wait at most SECONDS for nodes to deliver their data")
        .type("SECONDS")
        .showDefault();
    command
        .option("--slurm", o->slurm,
                "Only the nodes of this Slurm job; without --duration and --last, until the job ends")
        .type("JOBID");
    addForce(command, o->force);
    command.footer(
        "Examples:  tracesmith cluster record -o job.sbt -d 10 --last 30\n"
        "           tracesmith cluster record -o job.sbt --slurm 4711");
    command.run(
        [o = o]() -> Status {
          if (o->start.duration_s == 0 && o->start.last_s == 0 && o->slurm.empty())
            return Status::invalid("give --duration SECONDS, --last SECONDS, or both");
          return checkOutput(o->output, {}, o->force);
        },
        [o = o] { return record(*o); });
  }
  {
    auto [command, o] = make("start", "Start a named session", start);
    addStart(command, *o);
    command
        .option("-d,--duration", o->start.duration_s,
                "End after SECONDS (default: when it is stopped; with --last, now)")
        .type("SECONDS")
        .check(range(0.001, 1e8));
    command.option("--last", o->start.last_s, "Start SECONDS ago, as far back as the rings reach").type("SECONDS");
    command.option("--max-age", o->start.max_age_s, "Keep only the last SECONDS of the session").type("SECONDS");
    command.option("--max-bytes", o->start.max_bytes, "Keep only about the last BYTES of the session").type("BYTES");
    command.footer(
        "Examples:  tracesmith cluster start --name epoch-1 --freq 100\n"
        "           tracesmith cluster start --name weeks --keep summary");
  }
  {
    auto [command, o] = make("stop", "Stop one session, or all", stop);
    command.option("--name", o->name, "Session to stop (default: all recording ones)").type("NAME");
    command.option("-o,--output", o->output, "Also write the trace (.sbt) or frames (.json)").type("FILE");
    command.option("--wait", o->wait_s, "Wait at most SECONDS for nodes to deliver their data")
        .type("SECONDS")
        .showDefault();
    addForce(command, o->force);
    command.run([o = o] { return checkOutput(o->output, {}, o->force); }, [o = o] { return stop(*o); });
    command.footer("Example:  tracesmith cluster stop --name epoch-1 -o epoch-1.json");
  }
  {
    auto [command, o] = make("sessions", "List the sessions", sessions);
    command.footer("Example:  tracesmith cluster sessions --json");
  }
  auto [command, o] = make("recover", "List sessions, resume one, or export its data", recover);
  command.flag("--list", o->list, "List all sessions");
  command.option("--name", o->name, "Session to resume or export, by name").type("NAME");
  command.option("--id,--session-id", o->id, "Session to resume or export, by id").type("ID");
  command.option("--export", o->output, "Export the trace (.sbt) or frames (.json) instead of resuming").type("FILE");
  addForce(command, o->force);
  command.footer(
      "Without --export, the session resumes recording.\n\nExample:  tracesmith cluster recover --name epoch-1 "
      "--export epoch-1.sbt");
  command.run(
      [o = o]() -> Status {
        if (o->list + !o->name.empty() + !o->id.empty() != 1)
          return Status::invalid("give one of --list, --name NAME or --id ID");
        return checkOutput(o->output, {}, o->force);
      },
      [o = o] { return recover(*o); });
}

}  // namespace tracesmith::cli
