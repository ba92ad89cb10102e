// The summary of a trace as a person reads it.
#include <algorithm>
#include <cstdio>
#include <map>

#include "analysis/rows/rank_rows.hpp"
#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/info_summary.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

using trace::kNull;

constexpr size_t kMost = 8;  // lines of one list, so that all fits a screen

std::string bytesPerRow(uint64_t bytes, uint64_t rows) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.2f",
                rows == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(rows));
  return buffer;
}

void line(const char* key, const std::string& value) {
  std::string text = key;
  text.resize(std::max<size_t>(12, text.size()), ' ');
  std::printf("%s\n", wrapped(text + printable(value), textWidth()).c_str());
}

/// A list with a heading; what is too much is counted.
void list(const char* title, std::vector<std::vector<std::string>> rows, size_t most = kMost) {
  if (rows.size() < 2) return;
  size_t more = rows.size() - 1 > most ? rows.size() - 1 - most : 0;
  rows.resize(rows.size() - more);
  rows[0][0] = title;
  constexpr size_t kLongest = 60;  // of a text that anybody may have written
  for (std::vector<std::string>& row : rows)
    for (std::string& cell : row) cell = shorten(printable(cell), kLongest);
  std::printf("\n%s", tableText(rows).c_str());
  if (more > 0) std::printf("… and %zu more (--json lists all)\n", more);
}

std::string optionalNs(int64_t ns) { return ns == kNull ? "" : humanNs(static_cast<double>(ns)); }

/// "kernel 374,625, runtime 382,951, …", with a name before it, in lines that fit a terminal.
void wrapped(const char* key, const std::vector<std::string>& words) {
  constexpr size_t kIndent = 12;
  const size_t limit = std::min<size_t>(79, textWidth());
  std::string text = key;
  text.resize(kIndent, ' ');
  size_t width = kIndent;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i] + (i + 1 < words.size() ? ", " : "");
    if (width > kIndent && width + word.size() > limit) {
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n" + std::string(kIndent, ' ');
      width = kIndent;
    }
    text += word;
    width += word.size();
  }
  std::printf("%s\n", text.c_str());
}

void printTables(const Summary& s, bool columns) {
  std::vector<std::vector<std::string>> rows = {{"", "rows", "size", "bytes/row"}};
  std::vector<std::string> small;
  for (const Summary::Table& t : s.tables) {
    // What describes the job is a few rows: not worth a line each.
    if (!columns && t.info->id >= trace::tableOf<trace::NodeRow>().id && t.rows < 10'000) {
      small.push_back(std::string(t.info->name) + " " + humanCount(t.rows));
      continue;
    }
    rows.push_back(
        {"  " + std::string(t.info->name), humanCount(t.rows), humanBytes(t.bytes), bytesPerRow(t.bytes, t.rows)});
    if (!columns) continue;
    for (const Summary::Column& c : t.columns)
      if (c.values > 0)
        rows.push_back({"    " + c.name, humanCount(c.values), humanBytes(c.bytes), bytesPerRow(c.bytes, t.rows)});
  }
  rows.push_back({"  names", "", humanBytes(s.other_bytes), ""});
  list("tables", rows, SIZE_MAX);
  if (!small.empty()) wrapped("  others", small);
}

void printEvents(const Summary& s) {
  std::printf("\n");
  if (!s.by_type) {
    line("events", humanCount(s.host_rows) + " on the host, " + humanCount(s.device_rows) +
                       " on devices (--full counts them by type)");
    return;
  }
  std::vector<std::string> words;
  for (int t = 0; t < trace::kEventTypes; ++t)
    if (uint64_t n = (*s.by_type)[static_cast<size_t>(t)])
      words.push_back(std::string(trace::eventTypeName(static_cast<trace::EventType>(t))) + " " + humanCount(n));
  wrapped("events", words);
}

}  // namespace

std::string jobText(const Summary& s) {
  std::vector<std::string> parts;
  if (!s.ranks.empty() && s.ranks[0] != kNull)
    parts.push_back(counted(s.ranks.size(), "rank") + " (" + numberRanges(s.ranks) + ")");
  if (!s.nodes.empty())
    parts.push_back(counted(s.nodes.size(), "node") + (s.nodes.size() == 1 ? " (" + s.nodes[0] + ")" : ""));
  std::map<std::string, uint64_t> models;
  for (const Summary::Device& d : s.devices) ++models[d.name];
  for (const auto& [model, n] : models) parts.push_back(counted(n, "GPU") + (model.empty() ? "" : " " + model));
  if (s.first_step) parts.push_back("steps " + std::to_string(*s.first_step) + "-" + std::to_string(*s.last_step));
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : ", ") + p;
  return out;
}

void printSummary(const trace::Reader& reader, const Summary& s, bool columns) {
  line("file", reader.path() + ", " + humanBytes(reader.fileSize()) + ", " +
                   (reader.closed() ? "closed" : "not closed: still being written, or its writer was killed"));
  if (reader.unfinishedBytes() > 0)
    line("", humanBytes(reader.unfinishedBytes()) + " at the end are an incomplete block");
  if (s.start_ns)
    line("span", humanNs(difference(*s.start_ns, *s.end_ns)) + ", " + std::to_string(*s.start_ns) + " to " +
                     std::to_string(*s.end_ns) + " ns");
  std::string by;
  for (const std::string& source : s.sources) by += (by.empty() ? " by " : ", ") + source;
  line("recorded", utcTime(s.recorded_ns.value_or(reader.createdNs())) + by);
  if (analysis::isSummary(reader))
    line("kept", "a summary: events are counted by name and step; `tracesmith analyze` reads it like any trace");
  if (s.simulated) line("simulated", "simulated data, not a measurement");
  if (std::string text = jobText(s); !text.empty()) line("job", text);
  if (const size_t n = s.out_of_memory.size(); n > 0)
    line("memory",
         s.out_of_memory[0].text(1) + (n > 1 ? "; so did " + counted(n - 1, "other process", "other processes") : ""));
  if (s.watched) {
    const std::string text = capture::sentenceOf(*s.watched);  // what was recorded; what it costs
    const size_t half = text.find("; ");
    line("watching", text.substr(0, half));
    line("", text.substr(half + 2));
  }
  if (s.job && s.job->steps_by != "none") {
    line("job time",
         humanNs(1000 * s.job->job_us) +
             (s.job->steps ? ": " + counted(*s.job->steps, "step") + " of " + humanNs(1000 * s.job->step_us)
                           : " from the first to the last step") +
             (s.job->startup_us > 0 ? ", after " + humanNs(1000 * s.job->startup_us) + " of start-up" : ""));
    if (s.job->steps_by == "optimizer")
      line("", "steps are not marked: found by the ranges of their optimizers");
    else if (s.job->steps_by != "marks")
      line("", "steps are not marked: found by " + s.job->steps_by + " that repeat themselves");
  } else if (s.job && s.device_rows > 0) {
    line("job time", "unknown: no steps are marked, and none were found");
  } else if (!s.job) {
    line("job time", "not counted (--full or tracesmith analyze finds the steps)");
  }

  if (s.ends_in_flight)
    line("ends", "with operations in flight: if the job hangs, `tracesmith analyze` says who is missing");

  printTables(s, columns);
  if (s.host_rows + s.device_rows > 0) printEvents(s);

  if (s.collectives) {
    std::vector<std::vector<std::string>> rows = {{"", "communicator", "count", "bytes"}};
    for (const Summary::Collective& c : *s.collectives)
      rows.push_back({"  " + c.op, c.comm, humanCount(c.count), humanBytes(c.bytes)});
    list("collectives", rows);
  }
  std::vector<std::vector<std::string>> clocks = {{"", "offset", "drift", "error bound", "method"}};
  for (const Summary::Clock& c : s.clocks) {
    char drift[32] = "";
    if (c.drift_ppm) std::snprintf(drift, sizeof drift, "%.3f ppm", *c.drift_ppm);
    clocks.push_back({"  " + c.node, optionalNs(c.offset_ns), drift, optionalNs(c.bound_ns), c.method});
  }
  list("clocks", clocks);

  std::vector<std::vector<std::string>> collectors = {{"", "of one core", "time in calls", "readings", "values"}};
  for (const Summary::Collector& c : s.collectors) {
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.3f %%", c.elapsed_s > 0 ? 100 * c.cpu_s / c.elapsed_s : 0.0);
    collectors.push_back({"  " + (s.nodes.size() > 1 ? c.node + " " : "") + c.name, percent, humanNs(c.wall_s * 1e9),
                          humanCount(c.readings), humanCount(c.samples)});
  }
  list("collectors", collectors, 12);

  std::vector<std::vector<std::string>> losses = {{"", "records", "what happened"}};
  for (const Summary::Loss& l : s.losses) losses.push_back({"  " + l.cause, humanCount(l.count), l.detail});
  if (s.losses.empty()) std::printf("\nlosses      none recorded\n");
  list("losses", losses);

  std::vector<std::vector<std::string>> damage = {{"", "bytes", "what is wrong"}};
  for (const trace::Damage& d : reader.damage())
    damage.push_back({"  at " + std::to_string(d.offset), humanCount(d.bytes), d.what});
  list("damage", damage);
  if (s.verified && damage.size() == 1) std::printf("damage      none: every block was decoded\n");
  if (reader.unknownBlocks() > 0)
    std::printf("unknown     %s of tables from a newer version\n", counted(reader.unknownBlocks(), "block").c_str());
  std::string unknown;
  for (const std::string& c : reader.unknownColumns()) unknown += (unknown.empty() ? "" : ", ") + c;
  if (!unknown.empty()) line("unknown", "columns " + unknown);
}

}  // namespace tracesmith::cli
