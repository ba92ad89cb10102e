// tracesmith import: traces of other tools into one SBT file.
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "trace/import/import.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  trace::ImportOptions import;
  std::string output;
  int64_t rank = -1;
  bool json = false;
};

std::string ranksText(const std::set<int64_t>& ranks) {
  if (ranks.empty()) return "rank unknown";
  if (ranks.size() == 1) return "rank " + std::to_string(*ranks.begin());
  return humanCount(ranks.size()) + " ranks (" + std::to_string(*ranks.begin()) + " to " +
         std::to_string(*ranks.rbegin()) + ")";
}

void printText(const trace::ImportReport& r, const std::string& output, uint64_t bytes, double seconds) {
  std::printf("%s %s, %s: %s events, %s collectives, %s steps\n", humanCount(r.files).c_str(),
              r.files == 1 ? "file" : "files", ranksText(r.ranks).c_str(), humanCount(r.events).c_str(),
              humanCount(r.collectives).c_str(), humanCount(r.steps).c_str());
  for (const auto& [cause, entry] : r.losses.entries())
    std::printf("lost: %s × %s (%s)\n", humanCount(entry.count).c_str(), cause.c_str(),
                std::string(trace::utf8Prefix(entry.example, 120)).c_str());
  std::printf("%s: %s from %s of input, %.0f MB/s\n", output.c_str(), humanBytes(bytes).c_str(),
              humanBytes(r.json_bytes).c_str(), static_cast<double>(r.json_bytes) / 1e6 / seconds);
}

void printJson(const trace::ImportReport& r, const std::string& output, uint64_t bytes, double seconds) {
  std::string out;
  JsonWriter json(out);
  json.beginObject()
      .field("files", r.files)
      .field("events", r.events)
      .field("collectives", r.collectives)
      .field("steps", r.steps);
  json.key("ranks").beginArray();
  for (int64_t rank : r.ranks) json.value(rank);
  json.endArray().key("losses").beginArray();
  for (const auto& [cause, entry] : r.losses.entries())
    json.beginObject().field("cause", cause).field("count", entry.count).field("example", entry.example).endObject();
  json.endArray().key("warnings").beginArray();
  for (const std::string& w : r.warnings) json.value(w);
  json.endArray().field("output", output).field("output_bytes", bytes).field("input_bytes", r.input_bytes);
  json.field("json_bytes", r.json_bytes)
      .field("seconds", seconds)
      .field("mb_per_s", static_cast<double>(r.json_bytes) / 1e6 / seconds);
  json.endObject();
  std::printf("%s\n", out.c_str());
}

int run(Options& o) {
  auto start = std::chrono::steady_clock::now();
  if (o.rank >= 0) o.import.rank = o.rank;
  o.import.command = "tracesmith import";
  for (const std::string& path : o.import.paths) o.import.command += " " + path;
  o.import.command += " -o " + o.output;
  std::error_code ignored;
  bool special = std::filesystem::exists(o.output, ignored) && !std::filesystem::is_regular_file(o.output, ignored);
  if (!special) o.import.spill_path = o.output;

  trace::WriterOptions options;
  options.whole_or_absent = true;
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(o.output, options);
  if (!writer) return fail(writer.status());
  Result<trace::ImportReport> report = [&] {
    Progress bar("import");
    return trace::importTraces(o.import, **writer, [&](uint64_t done, uint64_t total) { bar.update(done, total); });
  }();
  if (!report) return fail(report.status());
  if (Status closed = (*writer)->close(); !closed) return fail(closed);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::string& w : report->warnings) warn(w);
  (o.json ? printJson : printText)(*report, o.output, (*writer)->bytesWritten(), seconds);
  return 0;
}

}  // namespace

void addImport(Command& app) {
  Command command =
      app.command("import", "Read Kineto or Chrome JSON (also .gz) or older SBT traces into one SBT trace");
  auto options = std::make_shared<Options>();
  command.positional("paths", options->import.paths, "Trace files, or folders of them: one file a rank")
      .required()
      .type("PATH");
  command.option("-o,--output", options->output, "The trace to write").required().type("FILE.sbt");
  command.option("--rank", options->rank, "Rank of the one input, whatever it says itself").check(nonNegative());
  command.option("--node", options->import.node, "Node the inputs were recorded on").type("NAME");
  command.flag("--json", options->json, "Print the summary as JSON");
  command.run([options] { return run(*options); });
}

}  // namespace tracesmith::cli
