// tracesmith cluster tail, query, analyze-comm: what the nodes recorded, as it comes or as it is stored.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "base/text.hpp"
#include "cli/analyze_print.hpp"
#include "cli/cluster.hpp"
#include "cli/outcome.hpp"
#include "cli/stored_session.hpp"
#include "cli/terminal.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {
namespace {

using cluster::Client;
using cluster::LiveEvent;

/// A trace that was fetched, as long as the command runs.
class Fetched {
 public:
  ~Fetched() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  /// A session by name or id; empty: all that is stored.
  Status fetch(Client& client, const std::string& session) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/tracesmith-XXXXXX.sbt";
    const int fd = ::mkstemps(path_.data(), 4);
    if (fd < 0) return Status::io("cannot create " + path_);
    ::close(fd);
    return fetchSession(client, session, path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Tail : ClientCommand {
  cluster::EventFilter filter;
  uint64_t count = 0;
};

void printEvent(const LiveEvent& e, bool json) {
  const TraceEvent& event = e.event;
  std::string text;
  if (json) {
    JsonWriter w(text);
    w.beginObject();
    if (e.lost > 0) w.field("lost", e.lost);
    if (event.type != EventType::Unknown) {
      w.field("node", e.node).key("rank");
      e.rank ? w.value(*e.rank) : w.null();
      w.field("ts", static_cast<int64_t>(event.timestamp)).field("dur", event.duration);
      w.field("type", eventTypeName(event.type)).field("name", event.name);
      w.field("device", static_cast<int64_t>(event.device_id)).field("stream", static_cast<int64_t>(event.stream_id));
      if (event.memory_params) w.field("bytes", event.memory_params->size_bytes);
    }
    w.endObject();
    std::printf("%s\n", text.c_str());
    return;
  }
  if (e.lost > 0) warn(humanCount(e.lost) + " events arrived too fast to be shown");
  if (event.type == EventType::Unknown) return;
  const auto ns = static_cast<int64_t>(event.timestamp);
  std::printf("%s.%09lld %-12s rank %-4s %10s  %-14s %s\n", timeText(ns).c_str(),
              static_cast<long long>(ns % 1'000'000'000), e.node.c_str(),
              e.rank ? std::to_string(*e.rank).c_str() : "?", humanNs(static_cast<double>(event.duration)).c_str(),
              eventTypeName(event.type), event.name.c_str());
}

int tail(const Tail& o) {
  // A signal ends the stream from a thread that may wait for locks, which a handler may not. Before gRPC has threads.
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int n : {SIGINT, SIGTERM}) ::sigaddset(&signals, n);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Result<std::unique_ptr<Client>> client = o.connect();
  if (!client) return fail(client.status());
  std::thread([signals, c = client->get()] {
    int number;
    ::sigwait(&signals, &number);
    c->cancel();
  }).detach();
  uint64_t left = o.count;
  const Status status = (*client)->follow(
      o.filter, [] { std::fflush(stdout); },
      [&](const LiveEvent& e) {
        printEvent(e, o.json);
        if (std::fflush(stdout) != 0) return false;  // whoever read it is gone
        return e.event.type == EventType::Unknown || o.count == 0 || --left > 0;
      });
  (void)client->release();  // the thread may be about to use it; the program ends here
  return status ? 0 : fail(status);
}

struct Comm : ClientCommand {
  std::string file, session;
};

int analyzeComm(const Comm& o) {
  Fetched fetched;
  std::string path = o.file;
  if (path.empty()) {
    Result<std::unique_ptr<Client>> client = o.connect();
    if (!client) return fail(client.status());
    if (Status s = fetched.fetch(**client, o.session); !s) return fail(s);
    path = fetched.path();
  }
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!reader) return fail(reader.status());
  Result<analysis::Analysis> result = analysis::analyze(**reader, {});
  if (!result) return fail(result.status());
  const std::string text =
      o.json ? communicationJson(*result) + "\n" : wrapped(communicationText(*result), textWidth());
  std::fwrite(text.data(), 1, text.size(), stdout);
  return finish(**reader, false);
}

}  // namespace

void addClusterData(Command& cluster) {
  {
    auto o = std::make_shared<Tail>();
    Command command = cluster.command("tail", "Show events of recording sessions as the nodes send them");
    o->add(command);
    command.option("--node", o->filter.nodes, "Only events of these nodes").type("NAME");
    command.option("--rank", o->filter.ranks, "Only events of these ranks").type("N").commas();
    command.option("--type", o->filter.types, "Only events of these types: kernel, memcpy, runtime, …, collective")
        .type("TYPE")
        .commas();
    command.option("-n,--count", o->count, "Stop after N events").type("N");
    command.footer(
        "Events that arrive faster than they can be shown are counted and skipped.\n\nExample:  tracesmith cluster "
        "tail --type collective --rank 0,1");
    command.run([o] { return tail(*o); });
  }
  {
    auto o = std::make_shared<SessionQuery>();
    Command command = cluster.command("query", "Run SQL over what is stored and over what runs now");
    o->add(command);
    command.positional("SQL", o->sql, "SQL; without it, a prompt or statements from standard input").type("SQL");
    command.option("--name,--session", o->session, "Session, by name or id (default: everything stored)").type("NAME");
    command.option("-f,--file", o->sql_file, "Read the SQL from this file (- means standard input)").type("SQLFILE");
    command
        .option("--format", o->format,
                "Output format: table, csv, json, parquet or arrow (default: by the ending of OUT, else a table)")
        .type("FORMAT");
    command.option("-o,--output", o->output, "Write the result to this file").type("OUT");
    command
        .option("--store", o->store,
                "Where the rows are read: at the master, or in the ClickHouse that `cluster master --clickhouse` fills "
                "(ClickHouse's dialect)")
        .type("STORE")
        .showDefault()
        .check(oneOf({"master", "clickhouse"}));
    command.flag("--strict", o->strict, "Fail if a node is late, does not answer, or a part of the data is damaged");
    command.flag("-v,--verbose", o->verbose, "Print what was read of the data, the number of rows and the time");
    command.footer(
        "The answer is that of one database with the rows of all nodes. Only columns and blocks that the statement "
        "needs "
        "are\nfetched. Tables of what runs now: live.processes, live.threads, live.stacks, live.inflight, "
        "live.nodes.\n\n"
        "Example:  tracesmith cluster query --name epoch-1 \"SELECT node, count(*) FROM events GROUP BY node\"\n"
        "          tracesmith cluster query --store clickhouse \"SELECT node, count() FROM events GROUP BY node\"");
    command.run(
        [o]() -> Status {
          if (o->store == "clickhouse" && !o->session.empty())
            return Status::invalid("ClickHouse has the rows of all sessions: choose by ts, not by --name");
          return {};
        },
        [o] { return o->store == "clickhouse" ? queryClickHouse(*o) : querySession(*o); });
  }
  auto o = std::make_shared<Comm>();
  Command command = cluster.command("analyze-comm", "Show who sends how much to whom, and which links are slow");
  o->add(command);
  Option file = command.positional("FILE", o->file, "Trace to read").type("FILE.sbt");
  command.option("--name,--session", o->session, "Read a session of the master instead, by name or id")
      .type("NAME")
      .excludes(file);
  command.footer("Example:  tracesmith cluster analyze-comm job.sbt");
  command.run(
      [o]() -> Status {
        if (o->file.empty() && o->session.empty()) return Status::invalid("give FILE.sbt or --name SESSION");
        return {};
      },
      [o] { return analyzeComm(*o); });
}

}  // namespace tracesmith::cli
