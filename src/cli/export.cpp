// tracesmith export: a trace in the format of another tool.
#include "trace/export/export.hpp"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "analysis/summary/summarize.hpp"
#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/libraries.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"
#include "query/engine.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::cli {
namespace {

enum class Format { kPerfetto, kChrome, kCsv, kJson, kParquet };

struct Options {
  std::string file, out, format, table, keep;
  bool strict = false, force = false;
  SelectionOptions selection;
};

std::optional<Format> formatOf(const Options& o) {
  static const std::pair<const char*, Format> kNames[] = {{"perfetto", Format::kPerfetto},
                                                          {"chrome", Format::kChrome},
                                                          {"csv", Format::kCsv},
                                                          {"json", Format::kJson},
                                                          {"parquet", Format::kParquet}};
  static const std::pair<const char*, Format> kEndings[] = {
      {".pftrace", Format::kPerfetto}, {".perfetto-trace", Format::kPerfetto},
      {".json", Format::kChrome},      {".csv", Format::kCsv},
      {".jsonl", Format::kJson},       {".ndjson", Format::kJson},
      {".parquet", Format::kParquet}};
  for (auto [name, format] : kNames)
    if (o.format == name) return format;
  if (!o.format.empty()) return std::nullopt;
  for (auto [ending, format] : kEndings)
    if (o.out.ends_with(ending)) return format;
  return std::nullopt;
}

bool hasAllTables(Format format) { return format == Format::kPerfetto || format == Format::kChrome; }

/// Everything but parquet: through this program's own exporters.
Status write(trace::Export& e, Format format, const trace::TableInfo& table) {
  switch (format) {
    case Format::kPerfetto:
      return trace::exportPerfetto(e);
    case Format::kChrome:
      return trace::exportChrome(e);
    case Format::kJson:
      return trace::exportJsonLines(e, table);
    default:
      return trace::exportCsv(e, table);
  }
}

/// Tells what was written.
void report(const std::string& out, const std::string& before, const char* after = "") {
  std::error_code ignored;
  auto size = static_cast<uint64_t>(std::filesystem::file_size(out, ignored));
  std::printf("%s: %s%s%s\n", out.c_str(), before.c_str(), humanBytes(size).c_str(), after);
}

/// Parquet is written by the SQL library, which has a reader of its own.
int exportParquet(const Options& o, const trace::Selection& selection, const trace::TableInfo& table) {
  Result<std::unique_ptr<query::Engine>> engine = loadQueryEngine();
  if (!engine) return fail(engine.status());
  if (Status s = (*engine)->open({o.file}, {}); !s) return fail(s);
  // The library leaves a whole file or none; with --strict there is a reason more to leave none.
  const std::string work = o.strict ? o.out + ".part" + std::to_string(::getpid()) : o.out;
  if (Status s = (*engine)->exportParquet(table.name, selection, work); !s) return fail(s);
  std::error_code error;
  for (const std::string& damage : (*engine)->damage()) {
    if (o.strict) {
      std::filesystem::remove(work, error);
      return fail(Status::corrupt(damage));
    }
    warn(damage);
  }
  if (o.strict) std::filesystem::rename(work, o.out, error);
  if (error) return fail(Status::io("cannot create " + o.out + ": " + error.message()));
  report(o.out, "");
  return 0;
}

/// Writes the output; nothing is left of it if that fails, or if parts of the trace could not be read and that matters.
int exportTo(const Options& o, const trace::Reader& reader, const trace::Selection& selection, Format format,
             const trace::TableInfo& table) {
  const bool standard = o.out == "-";
  OutputFile output;
  Result<File> file = standard ? File::standardOutput() : Result<File>(File());
  if (!file) return fail(file.status());
  if (!standard) {
    Result<OutputFile> created = OutputFile::create(o.out);
    if (!created) return fail(created.status());
    output = std::move(*created);
  }
  BufferedWriter writer(standard ? *file : output.file());
  uint64_t rows, left_out;
  {
    Progress progress("exporting");
    trace::Export e{reader, selection, writer, progress};
    Status status = write(e, format, table);
    if (status.ok()) status = writer.flush();
    if (!status) return fail(status);
    rows = e.rows;
    left_out = e.left_out;
  }
  if (int code = finish(reader, o.strict); code != 0) return code;
  if (Status s = standard ? file->close() : output.commit(); !s) return fail(s);
  if (left_out > 0) warn(humanCount(left_out) + " rows before time 0 were left out: this format cannot represent them");
  if (standard) return 0;
  report(o.out, humanCount(rows) + " rows, ", format == Format::kPerfetto ? "; open it at ui.perfetto.dev" : "");
  return 0;
}

/// Not another format: less of it.
int exportSummary(const Options& o) {
  if (o.out == "-" || formatOf(o) || !o.format.empty() || !o.table.empty() || !o.selection.none())
    return usage(
        "export",
        "--keep summary writes an SBT trace into a file: it takes no other format, no --table and no selection");
  if (Status s = checkOutput(o.out, {o.file}, o.force); !s) return usage("export", s.message());
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(o.file);
  if (!reader) return fail(reader.status());
  trace::WriterOptions options;
  options.whole_or_absent = true;
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(o.out, options);
  if (!writer) return fail(writer.status());
  Result<analysis::SummaryStats> kept = analysis::summarize(**reader, **writer);
  if (!kept) return fail(kept.status());
  if (int code = finish(**reader, o.strict); code != 0) return code;
  if (Status s = (*writer)->close(); !s) return fail(s);
  report(o.out, counted(kept->rank_steps, "step of a rank", "steps of ranks") + ", " + humanCount(kept->kept) + " of " +
                    humanCount(kept->events) + " events kept, ");
  return 0;
}

int run(const Options& o) {
  if (!o.keep.empty()) return exportSummary(o);
  std::optional<Format> format = formatOf(o);
  if (!format)
    return usage("export", "'" + o.out + "' has no known ending: add --format perfetto, chrome, csv, json or parquet");
  if (*format == Format::kParquet && o.out == "-")
    return usage("export", "parquet cannot be written to standard output: give a file");
  if (!o.table.empty() && hasAllTables(*format))
    return usage("export", "--table works only with csv, json and parquet");
  const trace::TableInfo* table = trace::findTable(o.table.empty() ? "events" : o.table);
  if (!table) return usage("export", unknownTable(o.table));
  if (Status s = checkOutput(o.out, {o.file}, o.force); !s) return usage("export", s.message());

  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(o.file);
  if (!reader) return fail(reader.status());
  // Other tools know one clock only; tables keep the clocks of their nodes.
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(**reader);
  if (!clock) return fail(clock.status());
  Result<trace::Selection> selection = o.selection.resolve(**reader, hasAllTables(*format) ? clock->get() : nullptr);
  if (!selection) return usage("export", selection.status().message());
  if (*format == Format::kParquet) return exportParquet(o, *selection, *table);
  return exportTo(o, **reader, *selection, *format, *table);
}

}  // namespace

void addExport(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("export", "Write a trace in the format of another tool");
  command.positional("FILE", o->file, "Trace to read").required().type("FILE.sbt");
  command.option("-o,--output", o->out, "File to write; - means standard output").required().type("OUT");
  command.option("--format", o->format, "Format to write (default: by the ending of OUT)")
      .type("FORMAT")
      .check(oneOf({"perfetto", "chrome", "csv", "json", "parquet"}));
  command.option("--table", o->table, "Table to write as csv, json or parquet (default: events)").type("TABLE");
  command
      .option("--keep", o->keep,
              "Write a trace (OUT.sbt) that keeps less: 'summary' keeps for each rank and step where the time went and "
              "one row for each name of its events")
      .type("WHAT")
      .check(oneOf({"summary"}));
  o->selection.add(command);
  addForce(command, o->force);
  command.flag("--strict", o->strict, "Write nothing and exit with 1 if a part of the trace cannot be read");
  command.footer(
      "Formats:\n  perfetto  .pftrace .perfetto-trace  for ui.perfetto.dev: nodes, ranks, threads, GPUs and streams as "
      "a tree,\n                                      arrows from launches to kernels, counters, steps, collectives, "
      "losses\n  chrome    .json                     Chrome trace as Kineto writes it, for chrome://tracing, HTA and "
      "others\n  csv       .csv                      one table, RFC 4180; NULL is an empty field, an empty string is "
      "\"\"\n  json      .jsonl .ndjson            one table, a JSON object on each line\n  parquet   .parquet         "
      "         one table\nPerfetto and Chrome have one clock: if the trace has clock models for its nodes, times are "
      "converted to the\nreference clock. Tables keep the raw clock of each node (see the table clocks).\n\nTimes are "
      "exact to the ns in all formats. OUT is written completely or not at all. Damaged blocks are left out\nwith a "
      "warning. `tracesmith info --schema` lists tables and columns.\n\nExamples:  tracesmith export job.sbt -o "
      "job.pftrace --rank 0,1 --from 2s --to 2.5s\n           tracesmith export job.sbt -o - --format csv --table "
      "collectives | head");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
