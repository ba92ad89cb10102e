// `tracesmith query`: SQL over one or several traces, and over what runs now.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "access/names.hpp"
#include "base/file.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/completeness.hpp"
#include "cli/flight.hpp"
#include "cli/libraries.hpp"
#include "cli/live_source.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/query_watch.hpp"
#include "cli/stored_session.hpp"
#include "cli/trace_file.hpp"
#include "query/engine.hpp"

namespace tracesmith::cli {
namespace {

using query::Engine;
using query::Format;

constexpr uint64_t kTableRows = 40;

struct QueryArgs {
  std::vector<std::string> inputs;
  std::string sql;                    // if it is not the last word of `inputs`
  std::string format, out, sql_file;  // format empty: by the ending of `out`, or a table
  query::EngineOptions engine;
  double timeout_s = 0;
  uint64_t max_rows = kTableRows;
  bool strict = false, verbose = false;
  Target target;  // its text is empty: only traces
  std::string session;
  bool live() const { return !target.text.empty(); }
};

Status readAll(const std::string& path, std::string& text) {
  Result<File> file = File::openRead(path == "-" ? "/dev/stdin" : path);
  if (!file) return file.status();
  char buffer[1 << 16];
  for (size_t got = 1; got > 0;) {
    TS_TRY(file->readNext(buffer, sizeof buffer, got));
    text.append(buffer, got);
  }
  return {};
}

/// The last word is the SQL, unless it is a file or SQL comes from elsewhere.
Status splitInputs(QueryArgs& args, std::string& sql) {
  auto isFile = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  };
  sql = args.sql;
  if (args.inputs.empty()) return args.live() ? Status() : Status::invalid("give a trace, or -t TARGET");
  if (args.sql_file.empty() && !isFile(args.inputs.back())) {
    const std::string& last = args.inputs.back();
    bool path = last.find_first_of(" \t\n;(") == std::string::npos &&
                (last.ends_with(".sbt") || last.find('/') != std::string::npos);
    if (path || (args.inputs.size() == 1 && !args.live())) return Status::notFound("no such trace: " + last);
    sql = last;
    args.inputs.pop_back();
  }
  return {};
}

Status parseFormat(const QueryArgs& args, Format& format) {
  struct Named {
    const char* name;
    Format format;
  };
  constexpr Named kFormats[] = {{"table", Format::kTable},
                                {"csv", Format::kCsv},
                                {"json", Format::kJson},
                                {"parquet", Format::kParquet},
                                {"arrow", Format::kArrow}};
  format = Format::kTable;
  for (const Named& f : kFormats)
    if (args.format.empty() ? args.out.ends_with(std::string(".") + f.name) : args.format == f.name) {
      format = f.format;
      return {};
    }
  if (!args.format.empty())
    return Status::invalid("unknown format '" + args.format + "': use table, csv, json, parquet or arrow");
  const std::string ending = std::filesystem::path(args.out).extension().string();
  if (ending.empty() || ending == ".txt") return {};
  return Status::invalid("the ending " + ending +
                         " is of no format: use .csv, .json, .parquet, .arrow or .txt, or name the format (--format)");
}

/// A folder stands for the traces in it, or for what is imported from it.
Status findTraces(std::vector<std::string>& inputs) {
  std::vector<std::string> found;
  for (const std::string& input : inputs) {
    std::vector<std::string> inside;
    std::error_code error;
    if (std::filesystem::is_directory(input, error))
      for (const auto& entry : std::filesystem::directory_iterator(input, error))
        if (entry.path().extension() == ".sbt") inside.push_back(entry.path().string());
    if (inside.empty()) {
      Result<std::string> file = traceFile(input);
      if (!file) return file.status();
      inside.push_back(*file);
    }
    std::sort(inside.begin(), inside.end());
    found.insert(found.end(), inside.begin(), inside.end());
  }
  inputs = std::move(found);
  return {};
}

Status writeStdout(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR && !QueryWatch::signalled()) continue;
    if (n < 0) return errnoStatus("write to", "standard output");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

uint64_t terminalWidth() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
}

void printReport(const query::RunReport& report, bool verbose, const StoredSession* stored) {
  if (verbose && stored)
    std::fprintf(stderr, "tracesmith: fetched %s of %s\n", humanBytes(stored->fetchedBytes()).c_str(),
                 humanBytes(stored->size()).c_str());
  if (verbose)
    for (const query::ScanReport& scan : report.scans)
      std::fprintf(stderr, "tracesmith: %s: blocks kept %s of %s, decoded %s\n", scan.table.c_str(),
                   humanCount(scan.kept).c_str(), humanCount(scan.blocks).c_str(), humanCount(scan.decoded).c_str());
  if (verbose || ::isatty(STDERR_FILENO))
    std::fprintf(stderr, "%s %s, %s\n", humanCount(report.rows).c_str(), report.rows == 1 ? "row" : "rows",
                 humanNs(report.seconds * 1e9).c_str());
}

/// Runs statements with the output of the command line.
Status runSql(Engine& engine, const QueryArgs& args, Format format, const std::string& sql,
              const QueryWatch::Options& ends, const StoredSession* stored) {
  QueryWatch watch(engine, ends);
  query::RunOptions options;
  options.format = format;
  options.max_rows = args.max_rows;
  options.parquet = args.out;
  query::RunReport report;
  if (format == Format::kParquet || args.out.empty()) {
    options.write = writeStdout;
    if (args.out.empty()) options.max_width = terminalWidth();
    TS_TRY(watch.explain(engine.run(sql, options, report)));
  } else {
    Result<OutputFile> output = OutputFile::create(args.out);
    if (!output) return output.status();
    BufferedWriter writer(output->file());
    options.write = [&](std::string_view bytes) { return writer.write(bytes); };
    TS_TRY(watch.explain(engine.run(sql, options, report)));
    TS_TRY(writer.flush());
    TS_TRY(output->commit());
  }
  printReport(report, args.verbose, stored);
  return {};
}

/// Everything a user should know about what the answer rests on. Returns whether something is missing from it.
bool printState(const Engine& engine, const LiveSource* live) {
  std::vector<std::string> missing = engine.damage();
  if (live)
    for (std::string& text : live->problems()) missing.push_back(std::move(text));
  for (const std::string& text : missing) warn(text);
  return !missing.empty();
}

/// What a master has stored, and the way to it.
struct Stored {
  std::unique_ptr<cluster::Client> client;
  std::unique_ptr<StoredSession> session;
};

std::string fileNameOf(const std::string& session) {
  return session.empty() ? "everything" : access::checkName("session", session) ? session : "session";
}

/// The tables of a trace that a statement may be about: it says their names. Empty: it may be about any.
std::vector<std::string> tablesIn(const std::string& sql) {
  std::string text = sql;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // Views of ours, names that are put together, and escapes in them.
  for (const char* any : {"python", "query_table", "u&\""})
    if (text.empty() || text.find(any) != std::string::npos) return {};
  std::vector<std::string> found = {"losses"};
  for (const trace::TableInfo& table : trace::tables())
    if (text.find(table.name) != std::string::npos) found.emplace_back(table.name);
  return found;
}

/// What was recorded of whom the target names: by the rings of this machine, or at its master.
Status addRecorded(QueryArgs& args, const std::string& sql, const TemporaryFolder& folder, Stored& stored) {
  if (!args.live() || !args.inputs.empty()) return {};
  const Result<Target::Meaning> meaning = args.target.meaning();
  if (!meaning) return meaning.status();
  using Kind = Target::Meaning::Kind;
  if (meaning->kind == Kind::agent) return {};
  if (!args.target.local()) {
    const std::string path = folder.path() + "/" + fileNameOf(args.session) + ".sbt";
    Result<std::unique_ptr<cluster::Client>> client = args.target.connect();
    if (!client) return client.status();
    stored.client = std::move(*client);
    stored.session = std::make_unique<StoredSession>(*stored.client);
    const std::vector<std::string> tables = tablesIn(sql);
    TS_TRY(stored.session->open(args.session, tables, path));
    if (!tables.empty())
      for (const trace::TableInfo& table : trace::tables())
        if (table.find("ts") >= 0 && &table != &trace::tableOf<trace::LossRow>() &&
            std::find(tables.begin(), tables.end(), table.name) == tables.end())
          args.engine.absent.emplace_back(table.name);
    const Result<model::ClusterStatus> status = stored.client->status();
    if (!status) return status.status();
    const Completeness complete = completenessOf(*status, args.session);
    for (const std::string& text : complete.missing) warn(text);
    if (args.strict && !complete.missing.empty())
      return Status::unavailable("not all nodes are in the answer (without --strict, there is one)");
    std::fprintf(stderr, "tracesmith: note: %s\n", complete.summary.c_str());
    args.engine.need = [&](const std::vector<query::ByteRange>& ranges) { return stored.session->need(ranges); };
    args.inputs.push_back(path);
    return {};
  }
  const int64_t pid = meaning->kind == Kind::process ? meaning->number : 0;
  if (pid != 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)
    return Status::notFound("there is no process " + std::to_string(pid));
  const std::string path = folder.path() + "/rings.sbt";
  const Result<bool> written = writeFlight(pid, path);
  if (!written) return written.status();
  if (*written) args.inputs.push_back(path);
  return {};
}

int runQuery(QueryArgs args) {
  std::string sql;
  Format format{};
  const Status known = parseFormat(args, format);
  if (Status s = splitInputs(args, sql); !s) return fail(s);
  const bool asked = !sql.empty() || !args.sql_file.empty();
  const bool prompt = !asked && ::isatty(STDIN_FILENO);
  if (format == Format::kParquet && args.out.empty())
    return fail(Status::invalid("--format parquet needs a file: -o OUT.parquet"));
  if (format == Format::kArrow && args.out.empty() && ::isatty(STDOUT_FILENO))
    return fail(Status::invalid("--format arrow is not for a terminal: -o OUT.arrow"));
  std::vector<std::string> read = {args.sql_file};
  for (const std::string& input : args.inputs)
    if (!std::filesystem::is_directory(input)) read.push_back(input);  // of a folder, traces are read, which are safe
  if (Status s = checkOutput(args.out, read); !s) return fail(s);
  if (!known) return usage("query", known.message());
  if (prompt && !args.out.empty()) return fail(Status::invalid("-o needs an SQL statement"));
  if (!prompt && sql.empty())
    if (Status s = readAll(args.sql_file.empty() ? "-" : args.sql_file, sql); !s) return fail(s);

  if (Status s = findTraces(args.inputs); !s) return fail(s);
  Result<TemporaryFolder> spill = TemporaryFolder::create();
  if (!spill) return fail(spill.status());
  args.engine.spill = spill->path();
  std::optional<LiveSource> live;
  Stored stored;
  if (args.live()) {
    if (Status s = addRecorded(args, sql, *spill, stored); !s) return fail(s);
    live.emplace(args.target, args.strict);
    args.engine.live = [&live](const std::string& table) { return live->rows(table); };
  }
  const QueryWatch::Options ends{args.timeout_s, prompt, &*spill};
  Result<std::unique_ptr<Engine>> engine = loadQueryEngine();
  if (!engine) return fail(engine.status());
  if (Status s = (*engine)->open(args.inputs, args.engine); !s) return fail(s);
  for (const std::string& text : (*engine)->notes()) std::fprintf(stderr, "tracesmith: note: %s\n", text.c_str());

  Status status;
  bool damaged = false;
  if (prompt) {
    (*engine)->prompt([&](const std::string& statement) {
      if (live) live->startStatement();
      if (Status s = runSql(**engine, args, format, statement, ends, stored.session.get()); !s) fail(s);
      if (live) printState(**engine, &*live);
    });
    damaged = printState(**engine, nullptr);
  } else {
    status = runSql(**engine, args, format, sql, ends, stored.session.get());
    damaged = printState(**engine, live ? &*live : nullptr);
  }
  if (const int number = QueryWatch::signalled(); number != 0 && !prompt) return 128 + number;
  if (!status) return fail(status);
  return damaged && args.strict ? 1 : 0;
}

}  // namespace

int querySession(const SessionQuery& query) {
  QueryArgs args;
  static_cast<ClientCommand&>(args.target) = query;
  args.target.text = "all";
  args.session = query.session;
  args.sql = query.sql;
  args.sql_file = query.sql_file;
  args.format = query.json ? "json" : query.format;
  args.out = query.output;
  args.strict = query.strict;
  args.verbose = query.verbose;
  return runQuery(args);
}

void addQuery(Command& app) {
  auto args = std::make_shared<QueryArgs>();
  Command command = app.command("query", "Run SQL (DuckDB's dialect) over one or more traces");
  command
      .positional("INPUT", args->inputs,
                  "Traces, then the SQL as the last word; without SQL, a prompt or statements from standard input")
      .type("FILE... [SQL]");
  command.option("-f,--file", args->sql_file, "Read the SQL from this file (- means standard input)").type("SQLFILE");
  command
      .option("--format", args->format,
              "Output format: table, csv, json, parquet or arrow (default: by the ending of OUT, else a table)")
      .type("FORMAT");
  command.option("-o,--output", args->out, "Write the result to this file, completely or not at all").type("OUT");
  command.option("--max-rows", args->max_rows, "Rows of a table to show, first and last; 0 shows all")
      .showDefault()
      .type("N");
  command
      .option("--memory", args->engine.memory,
              "Memory limit; beyond it DuckDB spills to disk (default: half of the machine's memory)")
      .type("2GB");
  command.option("--threads", args->engine.threads, "Number of threads (default: all cores)")
      .check(range(1, 1024))
      .type("N");
  command.option("--timeout", args->timeout_s, "End a statement that takes longer (default: no limit)")
      .check(range(0.001, 1e9))
      .type("SECONDS");
  command.flag("--strict", args->strict, "Exit with 1 if a part of a trace cannot be read, or a node does not answer");
  command.flag("-v,--verbose", args->verbose, "Print how many blocks were read, the number of rows and the time");
  args->target.add(command);
  command.footer(
      "Tables: events, collectives, steps, metrics, losses, … (SHOW TABLES; DESCRIBE events). Statements can only "
      "read.\nBandwidth of a collective: algbw_gbps(op, bytes, group_size, dur), busbw_gbps(op, bytes, group_size, "
      "dur).\nWhether a kernel communicates, by its name: is_communication(name).\n"
      "With -t also what runs now: live.processes, threads, stacks, inflight, env (SHOW TABLES FROM live). Without "
      "FILE, "
      "the\nother tables then hold what the rings of this machine, or the master, have recorded.\n\n"
      "Examples:  tracesmith query job.sbt \"SELECT name, count(*), sum(dur) FROM events GROUP BY name ORDER BY 3 DESC "
      "LIMIT 10\"\n"
      "           tracesmith query job.sbt -o steps.csv \"SELECT * FROM steps\"\n"
      "           tracesmith query -t all \"SELECT node, rank, function, line FROM live.stacks WHERE frame = 0\"");
  command.run(
      [args]() -> Status {
        if (args->inputs.empty() && !args->live()) return Status::invalid("give a trace, or -t TARGET");
        return args->target.check();
      },
      [args] {
        if (args->target.json && args->format.empty()) args->format = "json";
        return runQuery(*args);
      });
}

}  // namespace tracesmith::cli
