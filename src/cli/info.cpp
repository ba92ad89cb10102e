// tracesmith info: what is in a trace, on one screen.
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/info_summary.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_file.hpp"
#include "trace/sql_columns.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string file;
  bool json = false, schema = false, columns = false, full = false, verify = false, strict = false;
};

int run(const Options& o) {
  if (o.schema) {
    o.json ? printSchemaJson() : printSchema();
    return 0;
  }
  if (o.file.empty()) return usage("info", "no trace given: tracesmith info FILE.sbt");
  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
  if (!reader) return fail(reader.status());
  if (o.verify)
    if (Status s = (*reader)->verify(); !s) return fail(s);
  Result<Summary> summary = summarize(**reader, o.full || o.verify);
  if (!summary) return fail(summary.status());
  summary->verified = o.verify;
  o.json ? printSummaryJson(**reader, *summary) : printSummary(**reader, *summary, o.columns);
  std::fflush(stdout);
  return finish(**reader, o.strict);
}

}  // namespace

void printSchema() {
  bool first = true;
  for (const trace::TableInfo& t : trace::tables()) {
    std::printf("%s%s: %s\n", first ? "" : "\n", t.name, t.doc);
    first = false;
    std::vector<std::vector<std::string>> rows;
    for (const trace::SqlColumn& c : trace::sqlColumns(t)) rows.push_back({c.name, c.type, c.doc});
    std::printf("%s", tableText(rows, "  ").c_str());
  }
}

void printSchemaJson() {
  std::string out;
  JsonWriter w(out);
  w.beginArray();
  for (const trace::TableInfo& t : trace::tables()) {
    w.beginObject().field("table", t.name).field("doc", t.doc).key("columns").beginArray();
    for (const trace::SqlColumn& c : trace::sqlColumns(t))
      w.beginObject().field("name", c.name).field("type", c.type).field("doc", c.doc).endObject();
    w.endArray().endObject();
  }
  w.endArray();
  std::printf("%s\n", out.c_str());
}

void addInfo(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("info", "Summarize a trace: contents, size, losses, damage");
  addTraceFile(command, "FILE", o->file, "Trace to summarize");
  command.flag("--columns", o->columns, "Also print the sizes of each table's columns");
  command.flag("--full", o->full,
               "Also count events by type and collectives, and find the steps (slow on large traces)");
  command.flag("--verify", o->verify, "Decode everything and list what is damaged; implies --full");
  command.flag("--strict", o->strict, "Exit with 1 if a part of the trace cannot be read");
  command.flag("--schema", o->schema, "Print all tables and columns with their meaning (no FILE needed)");
  command.flag("--json", o->json, "Print JSON");
  command.footer(
      "Reads only block headers and small tables (everything below 2 million events), so it is fast on traces of\n"
      "any size. Sizes are those of the compressed blocks. A trace that is still being written, or whose writer was\n"
      "killed, is read as far as it goes.\n\n"
      "JSON: one object with file, bytes, closed, unfinished_bytes, trace_id, created_ns, start_ns, end_ns,\n"
      "recorded_ns, simulated, sources, tables [name, rows, bytes, blocks, columns], other_bytes, host_rows,\n"
      "device_rows, events_by_type, ranks, nodes, devices, first_step, last_step, job [steps, steps_by, job_us,\n"
      "startup_us, step_us], out_of_memory [rank, pid, step, line, allocated, total, wanted, held [line, bytes,\n"
      "blocks]], collectives [op, comm, count, bytes], clocks, watch, collectors [cost of collecting telemetry],\n"
      "losses [cause, count, rows, detail], damage [offset, bytes, what], verified, unknown_blocks, unknown_columns.\n"
      "null means unknown, or not counted because it would take long (see --full).\n\n"
      "Examples:  tracesmith info job.sbt\n"
      "           tracesmith info job.sbt --json | jq '.losses'\n"
      "           tracesmith info job.sbt --verify --strict && echo all of it can be read");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
