// tracesmith view: a look at a trace without leaving the terminal.
#include "cli/view.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "analysis/rows/rank_rows.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/outcome.hpp"
#include "cli/selection.hpp"
#include "cli/terminal.hpp"
#include "cli/trace_file.hpp"
#include "cli/web.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string file, other, table;
  uint32_t count = 0, width = 0;
  bool timeline = false, threads = false, json = false, strict = false, web = false;
  server::Options page;
  SelectionOptions selection;
};

int run(const Options& o) {
  if (o.web) {
    Result<std::string> file = traceFile(o.file);
    if (!file) return fail(file.status());
    server::Options page = o.page;
    page.title = std::filesystem::path(o.file).lexically_normal().filename().string();
    if (!o.other.empty()) {
      Result<std::string> other = traceFile(o.other);
      if (!other) return fail(other.status());
      page.other = *other;
      page.other_title = std::filesystem::path(o.other).lexically_normal().filename().string();
    }
    return serveTrace(*file, page, o.json);
  }
  if (o.timeline && !o.table.empty()) return usage("view", "--timeline shows events: --table cannot be used with it");
  if (o.threads && !o.timeline) return usage("view", "--threads works only with --timeline");
  const trace::TableInfo* table = trace::findTable(o.table.empty() ? "events" : o.table);
  if (!table) return usage("view", unknownTable(o.table));
  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
  if (!reader) return fail(reader.status());
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(**reader);
  if (!clock) return fail(clock.status());
  Result<trace::Selection> selection = o.selection.resolve(**reader, clock->get());
  if (!selection) return usage("view", selection.status().message());
  ViewOptions view;
  view.count = o.count > 0 ? o.count : o.timeline ? 40 : 20;
  view.width = o.width > 0 ? o.width : terminalWidth();
  view.json = o.json;
  view.threads = o.threads;
  if (o.timeline && analysis::isSummary(**reader))
    warn(
        "this trace is a summary: only events that took much longer than usual are in the timeline, and a gap is not "
        "idle time");
  int64_t end;
  trace::tableTimes(**reader, trace::tableOf<trace::EventRow>(), clock->get(), view.start_ns, end);
  Status s = o.timeline ? viewTimeline(**reader, *selection, view) : viewRows(**reader, *table, *selection, view);
  std::fflush(stdout);
  return s ? finish(**reader, o.strict) : fail(s);
}

}  // namespace

void addView(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("view", "Show the rows of a trace, or a timeline of its GPUs");
  addTraceFile(command, "FILE", o->file, "Trace to show").required();
  command.option("-n", o->count, "Rows to show (default: 20), or lines of the timeline (default: 40)")
      .type("N")
      .check(range(uint64_t{1}, uint64_t{10'000'000}));
  command.option("--table", o->table, "Table to show (default: events)").type("TABLE");
  o->selection.add(command);
  command.flag("--timeline", o->timeline,
               "Show a timeline: a line for each stream, with what it did and how busy it was");
  command.flag("--threads", o->threads, "Also show the threads of the host in the timeline");
  command.option("--width", o->width, "Characters per line (default: width of the terminal)")
      .type("N")
      .check(range(uint64_t{40}, uint64_t{10'000}));
  Option web = command.flag("--web", o->web, "Serve an interactive timeline for a browser on this machine");
  command.option("--port", o->page.port, "Port of the page; 0 picks a free one").needs(web).showDefault();
  command.option("--with", o->other, "Another trace, to compare this one with on the page").type("FILE").needs(web);
  command.flag("--strict", o->strict, "Exit with 1 if a part of the trace cannot be read");
  command.flag("--json", o->json, "Print JSON: an array of rows with all columns, or the timeline's lines");
  command.footer(
      "Rows are sorted by time. Times are µs after the first event of the trace; with --json they are ns, on "
      "the\nreference clock if the trace has clock models. Columns without values are left out, and long names are "
      "shortened\nin the middle.\n\nEach character of the timeline shows what filled most of its time span, and "
      "roughly how much of it:\n  # kernels (+ about half, : less)   N communication (n less than half)   M copies (m) "
      "  . idle\n  and for threads: o operators, r calls of the runtime or driver, s waiting for the GPU.\nJSON of the "
      "timeline: from_ns, to_ns, bucket_ns, lines [rank, device, stream, tid, busy, buckets], "
      "ranks_not_shown.\n\nExamples:  tracesmith view job.sbt --type kernel --rank 3 -n 50\n           tracesmith view "
      "job.sbt --timeline --from 1s --to 1.2s\n           tracesmith view job.sbt --web\n           tracesmith view "
      "yesterday.sbt --web --with today.sbt\n           tracesmith view "
      "job.sbt --table collectives");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
