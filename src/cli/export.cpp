// tracesmith export: a trace in the format of another tool.
#include "trace/export/export.hpp"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/summary/summarize.hpp"
#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/libraries.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"
#include "cli/trace_file.hpp"
#include "query/engine.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::cli {
namespace {

/// Written by the SQL library; all others by this program.
constexpr trace::ExportFormat kParquet{"parquet", ".parquet", "one table", nullptr, nullptr};

std::vector<trace::ExportFormat> allFormats() {
  std::vector<trace::ExportFormat> all(trace::exportFormats().begin(), trace::exportFormats().end());
  all.push_back(kParquet);
  return all;
}

/// "a, b or c", of those that are wanted.
template <typename Wanted>
std::string namesOf(Wanted wanted, const char* last) {
  std::vector<std::string> names;
  for (const trace::ExportFormat& f : allFormats())
    if (wanted(f)) names.emplace_back(f.name);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : std::string(" ") + last + " ") + names[i];
  return text;
}

struct Options {
  std::string file, out, format, table, keep;
  bool strict = false, force = false;
  SelectionOptions selection;
};

std::optional<trace::ExportFormat> formatOf(const Options& o) {
  for (const trace::ExportFormat& f : allFormats())
    if (o.format.empty() ? trace::hasEnding(o.out, f.endings) : o.format == f.name) return f;
  return std::nullopt;
}

/// Tells what was written.
void report(const std::string& out, const std::string& before, const char* after = "") {
  std::error_code ignored;
  auto size = static_cast<uint64_t>(std::filesystem::file_size(out, ignored));
  std::printf("%s: %s%s%s\n", out.c_str(), before.c_str(), humanBytes(size).c_str(), after);
}

/// Removes what a run that was killed has left: OUT.part<its process>.
void removeLeftovers(const std::string& out) {
  namespace fs = std::filesystem;
  const fs::path path(out);
  const std::string begin = path.filename().string() + ".part";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : fs::path("."), error)) {
    const std::string name = entry.path().filename().string();
    int64_t pid;
    if (name.starts_with(begin) && parseInt(std::string_view(name).substr(begin.size()), pid) && pid > 0 &&
        ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)
      fs::remove(entry.path(), error);
  }
}

/// Parquet is written by the SQL library, which has a reader of its own.
int exportParquet(const Options& o, const std::string& file, const trace::Selection& selection,
                  const trace::TableInfo& table) {
  Result<std::unique_ptr<query::Engine>> engine = loadQueryEngine();
  if (!engine) return fail(engine.status());
  if (Status s = (*engine)->open({file}, {}); !s) return fail(s);
  // The library leaves a whole file or none; with --strict there is a reason more to leave none.
  if (o.strict) removeLeftovers(o.out);
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
  if (error) {
    const Status status = Status::io("cannot create " + o.out + ": " + error.message());
    std::filesystem::remove(work, error);
    return fail(status);
  }
  report(o.out, "");
  return 0;
}

/// Writes the output; nothing is left of it if that fails, or if parts of the trace could not be read and that matters.
int exportTo(const Options& o, const trace::Reader& reader, const trace::Selection& selection,
             const trace::ExportFormat& format, const trace::TableInfo& table) {
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
    Status status = format.whole ? format.whole(e) : format.table(e, table);
    if (status.ok()) status = writer.flush();
    if (!status) return fail(status);
    rows = e.rows;
    left_out = e.left_out;
  }
  if (int code = finish(reader, o.strict); code != 0) return code;
  if (Status s = standard ? file->close() : output.commit(); !s) return fail(s);
  if (left_out > 0) warn(humanCount(left_out) + " rows before time 0 were left out: this format cannot represent them");
  if (standard) return 0;
  report(o.out, humanCount(rows) + " rows, ",
         format.whole == trace::exportPerfetto ? "; open it at ui.perfetto.dev" : "");
  return 0;
}

/// Not another format: less of it.
int exportSummary(const Options& o) {
  if (o.out == "-" || formatOf(o) || !o.format.empty() || !o.table.empty() || !o.selection.none())
    return usage(
        "export",
        "--keep summary writes an SBT trace into a file: it takes no other format, no --table and no selection");
  if (Status s = checkOutput(o.out, {o.file}, o.force); !s) return usage("export", s.message());
  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
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
  const std::optional<trace::ExportFormat> format = formatOf(o);
  if (!format)
    return usage("export", "'" + o.out + "' has no known ending: add --format " +
                               namesOf([](const auto&) { return true; }, "or"));
  const bool parquet = !format->whole && !format->table;
  if (parquet && o.out == "-") return usage("export", "parquet cannot be written to standard output: give a file");
  if (!o.table.empty() && format->whole)
    return usage("export", "--table works only with " + namesOf([](const auto& f) { return !f.whole; }, "and"));
  const trace::TableInfo* table = trace::findTable(o.table.empty() ? "events" : o.table);
  if (!table) return usage("export", unknownTable(o.table));
  if (Status s = checkOutput(o.out, {o.file}, o.force); !s) return usage("export", s.message());

  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
  if (!reader) return fail(reader.status());
  // Other tools know one clock only; tables keep the clocks of their nodes.
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(**reader);
  if (!clock) return fail(clock.status());
  Result<trace::Selection> selection = o.selection.resolve(**reader, format->whole ? clock->get() : nullptr);
  if (!selection) return usage("export", selection.status().message());
  if (parquet) return exportParquet(o, (*reader)->path(), *selection, *table);
  return exportTo(o, **reader, *selection, *format, *table);
}

}  // namespace

void addExport(Command& app) {
  std::vector<std::string> names;
  std::string formats = "Formats:\n";
  for (const trace::ExportFormat& f : allFormats()) {
    names.emplace_back(f.name);
    std::string line = std::string("  ") + f.name;
    line.resize(12, ' ');
    line += f.endings;
    line.resize(38, ' ');
    formats += line + "  ";
    for (const char c : std::string_view(f.about))
      formats += c == '\n' ? "\n" + std::string(40, ' ') : std::string(1, c);
    formats += "\n";
  }
  auto o = std::make_shared<Options>();
  Command command = app.command("export", "Write a trace in the format of another tool");
  addTraceFile(command, "FILE", o->file, "Trace to read").required();
  command.option("-o,--output", o->out, "File to write; - means standard output").required().type("OUT");
  command.option("--format", o->format, "Format to write (default: by the ending of OUT)")
      .type("FORMAT")
      .check(oneOf(names));
  command
      .option(
          "--table", o->table,
          ("Table to write as " + namesOf([](const auto& f) { return !f.whole; }, "or") + " (default: events)").c_str())
      .type("TABLE");
  command
      .option(
          "--keep", o->keep,
          "Write a trace (OUT.sbt) that keeps less. summary: for each rank and step, where the time went and one row "
          "for each event name")
      .type("WHAT")
      .check(oneOf({"summary"}));
  o->selection.add(command);
  addForce(command, o->force);
  command.flag("--strict", o->strict, "Write nothing and exit with 1 if a part of the trace cannot be read");
  formats +=
      "\nPerfetto and Chrome have one clock: if the trace has clock models for its nodes, times are converted to the\n"
      "reference clock. Tables keep the raw clock of each node (see the table clocks).\n\n"
      "Times are exact to the ns in all formats. OUT is written completely or not at all. Damaged blocks are left out\n"
      "with a warning. `tracesmith info --schema` lists tables and columns.\n\n"
      "Examples:  tracesmith export job.sbt -o job.pftrace --rank 0,1 --from 2s --to 2.5s\n"
      "           tracesmith export job.sbt -o - --format csv --table collectives | head";
  command.footer(formats.c_str());
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
