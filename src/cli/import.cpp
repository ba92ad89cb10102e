// tracesmith import: traces of other tools into one SBT file.
#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/task_part.hpp"
#include "cli/trace_file.hpp"
#include "model/kernel_collective.hpp"
#include "trace/join.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  trace::ImportOptions import;
  std::string output;
  int64_t rank = -1;
  std::string rules;
  bool json = false, force = false;
};

std::string ranksText(const std::set<int64_t>& ranks) {
  if (ranks.empty()) return "rank unknown";
  if (ranks.size() == 1) return "rank " + std::to_string(*ranks.begin());
  return humanCount(ranks.size()) + " ranks (" + std::to_string(*ranks.begin()) + " to " +
         std::to_string(*ranks.rbegin()) + ")";
}

void printText(const trace::ImportReport& r, const std::string& output, uint64_t bytes, double seconds) {
  std::printf("%s, %s: %s, %s, %s\n", counted(r.files, "file").c_str(), ranksText(r.ranks).c_str(),
              counted(r.events, "event").c_str(), counted(r.collectives, "collective").c_str(),
              counted(r.steps.size(), "step").c_str());
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
      .field("steps", static_cast<uint64_t>(r.steps.size()));
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

/// Traces that need no conversion: several, or the parts in a folder of `run`. Nothing: others are among them.
std::vector<std::string> tracesOf(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return partsIn(paths[0]);
  for (const std::string& path : paths)
    if (!trace::Reader::open(path)) return {};
  return paths;
}

int join(const Options& o, const std::vector<std::string>& traces) {
  const Result<trace::JoinReport> report = trace::joinTraces(traces, o.output);
  if (!report) return fail(report.status());
  for (const std::string& problem : report->problems) warn(problem);
  if (o.json) {
    std::string out;
    JsonWriter json(out);
    json.beginObject().field("files", report->parts).field("nodes", report->nodes).field("events", report->events);
    json.field("output", o.output).field("output_bytes", report->bytes).endObject();
    std::printf("%s\n", out.c_str());
    return 0;
  }
  std::printf("%s: %s, %s, %s\n", o.output.c_str(), counted(report->parts, "trace").c_str(),
              counted(report->nodes, "node").c_str(), counted(report->events, "event").c_str());
  return 0;
}

int run(Options& o) {
  if (const std::vector<std::string> traces = tracesOf(o.import.paths); !traces.empty()) return join(o, traces);
  if (o.rank >= 0) o.import.rank = o.rank;
  if (!o.rules.empty()) {
    auto rules = std::make_shared<model::CommRules>();
    if (Status read = rules->addFile(o.rules); !read) return fail(read);
    o.import.type_of = [rules](std::string_view category) { return rules->typeOf(category); };
    o.import.collective_of = model::collectivesBy(rules);
  }
  Result<Imported> imported = importInto(o.import, o.output);
  if (!imported) return fail(imported.status());
  (o.json ? printJson : printText)(imported->report, o.output, imported->bytes, imported->seconds);
  return 0;
}

}  // namespace

void addImport(Command& app) {
  Command command = app.command(
      "import", "Convert traces of other tools (docs/import.md) or older SBT files to one SBT trace; join SBT traces");
  auto options = std::make_shared<Options>();
  command.positional("PATH", options->import.paths, "Trace files, or folders of them, one file per rank")
      .required()
      .type("PATH");
  command.option("-o,--output", options->output, "Trace to write").required().type("FILE.sbt");
  command.option("--rank", options->rank, "Rank of a single input, overriding what the file says").check(nonNegative());
  command.option("--node", options->import.node, "Node the inputs were recorded on").type("NAME");
  command
      .option("--comm-rules", options->rules,
              "Additional rules for what is communication, and for what the events of a category are")
      .type("FILE");
  addForce(command, options->force);
  command.flag("--json", options->json, "Print the summary as JSON");
  command.footer(
      "Rank, world size and host are taken from the files where they have them. What a file has and a trace cannot "
      "keep\n"
      "is counted in the table losses. Read are JSON of PyTorch and Chrome, dumps of torch's flight recorder, logs of "
      "NCCL's\nInspector, and reports of Nsight Systems and rocprofv3 in SQLite (docs/import.md).\n\n"
      "Examples:  tracesmith import -o job.sbt rank0.json.gz rank1.json.gz\n"
      "           tracesmith import -o job.sbt traces/ && tracesmith analyze job.sbt\n"
      "           nsys export --type sqlite rank0.nsys-rep && tracesmith import -o job.sbt rank0.sqlite\n"
      "           tracesmith import -o job.sbt node1.sbt node2.sbt");
  command.run([options] { return checkOutput(options->output, options->import.paths, options->force); },
              [options] { return run(*options); });
}

}  // namespace tracesmith::cli
