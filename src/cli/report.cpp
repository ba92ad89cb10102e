// tracesmith report: the analysis as one self-contained page.
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/file.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/info_summary.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/report_pictures.hpp"
#include "cli/trace_file.hpp"

namespace tracesmith::cli {
namespace {

using namespace analysis;
using trace::kNull;

struct Options {
  std::string file, output;
  AnalyzeOptions analyze;
  bool json = false, strict = false;
};

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--page:#fff;--text:#1d2330;--soft:#5d6778;--line:#e2e6ee;--card:#f6f8fb;--forward:#4c78c8;
--backward:#3aa6a0;--optimizer:#9a6fc0;--compute:#7d8aa5;--data:#d9a514;--exposed:#d64545;--wait:#f0a3a3;--hidden:#e58a3c;--idle:#dfe4ec;
--accent:#2f6bd0;--slow:#d64545;--fast:#3a76d8}
@media (prefers-color-scheme:dark){:root{--page:#12151c;--text:#e6e9f0;--soft:#98a2b5;--line:#2a3040;--card:#1a1f2a;--forward:#6f9bea;
--backward:#54c2bb;--optimizer:#b794dd;--compute:#8f9cb8;--data:#e8bd44;--exposed:#ee6a6a;--wait:#7a3b42;--hidden:#efa35f;--idle:#2c3343;
--accent:#6ea3ff;--slow:#ef6b6b;--fast:#6ea3ff}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 24px 60px}h1{font-size:22px;line-height:1.35;margin:0 0 6px}h2{font-size:16px;margin:34px 0 8px}
p{margin:4px 0}.soft{color:var(--soft)}.verdict{border-left:4px solid var(--exposed);padding:4px 0 4px 16px;margin-bottom:16px}
.verdict.none{border-color:var(--backward)}.verdict.unknown{border-color:var(--data)}
.tiles{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0}.tiles div{background:var(--card);border-radius:8px;padding:8px 14px;min-width:110px}
.tiles b{display:block;font-size:19px;font-weight:600}.tiles span{color:var(--soft);font-size:12px}
table{border-collapse:collapse;width:100%;font-size:13px}th{font-weight:500;color:var(--soft);text-align:left}td,th{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}td{overflow-wrap:anywhere}th{white-space:nowrap}
.about{margin-bottom:14px}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.scroll{overflow-x:auto}
svg{width:100%;height:auto;display:block;margin-top:6px}.matrix svg{max-width:460px}svg text{fill:var(--text);font:12px system-ui,sans-serif}svg .small{font-size:11px;fill:var(--soft)}
svg .strong{font-weight:700;fill:var(--exposed)}.grid{stroke:var(--line)}.mark{stroke:var(--text);stroke-dasharray:3 3}.empty{fill:var(--card)}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.optimizer{fill:var(--optimizer)}.compute{fill:var(--compute)}.data{fill:var(--data)}
.exposed{fill:var(--exposed)}.wait{fill:var(--wait)}.hidden{fill:var(--hidden)}.idle{fill:var(--idle)}.accent{fill:var(--accent)}.slow{fill:var(--slow)}.fast{fill:var(--fast)}
)";

std::string number(const char* format, double v) {
  if (!std::isfinite(v)) return "–";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, v);
  return buffer;
}
std::string time(double us) { return std::isfinite(us) ? humanNs(us * 1000) : "–"; }
std::string id(int64_t v) { return v == kNull ? "–" : std::to_string(v); }

/// A table: headings that begin with '#' are of numbers.
class HtmlTable {
 public:
  HtmlTable(std::string& out, const std::vector<std::string>& headings) : out_(out) {
    out_ += "<div class=scroll><table><tr>";
    for (const std::string& h : headings) {
      right_.push_back(h[0] == '#');
      out_ += (right_.back() ? "<th class=n>" : "<th>") + escapedMarkup(right_.back() ? h.substr(1) : h) + "</th>";
    }
    out_ += "</tr>\n";
  }
  ~HtmlTable() { out_ += "</table></div>\n"; }
  void row(const std::vector<std::string>& cells) {
    out_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      out_ += (right_[i] ? "<td class=n>" : "<td>") + escapedMarkup(cells[i]) + "</td>";
    out_ += "</tr>\n";
  }

 private:
  std::string& out_;
  std::vector<bool> right_;
};

void section(std::string& out, const std::string& title, const std::string& note, const std::string& picture) {
  if (picture.empty()) return;
  out += "<h2>" + escapedMarkup(title) + "</h2>\n";
  if (!note.empty()) out += "<p class=soft>" + escapedMarkup(note) + "</p>\n";
  out += picture + "\n";
}

void tables(std::string& out, const Analysis& a) {
  if (!a.blame.empty()) {
    out +=
        "<h2>Who the others waited for</h2>\n<p class=soft>Waiting time summed over all other ranks, by the rank that "
        "caused it.</p>\n";
    HtmlTable t(out, {"#rank", "node", "#others waited", "#exposed", "#collectives", "#slowdown", "cause", "#sure",
                      "evidence"});
    for (size_t i = 0; i < a.blame.size() && i < 12; ++i) {
      const Blame& b = a.blame[i];
      t.row({id(b.rank), b.node, time(b.cost_us), time(b.lost_us), humanCount(b.collectives),
             number("%.2f ×", b.slowdown), titleOf(b.cause), number("%.0f %%", 100 * b.confidence), b.evidence});
    }
  }
  if (!a.links.empty()) {
    out += "<h2>Transfers</h2>\n";
    HtmlTable t(out, {"group", "#ranks", "#collectives", "#slowdown", "#GB/s", "#sure", "compared with"});
    for (size_t i = 0; i < a.links.size() && i < 12; ++i) {
      const LinkResult& l = a.links[i];
      t.row({l.group, std::to_string(l.ranks.size()), humanCount(l.collectives), number("%.2f ×", l.slowdown),
             number("%.1f", l.busbw_gbps), l.significant ? number("%.0f %%", 100 * l.confidence) : "–",
             l.compared_with});
    }
  }
  if (!a.roles.empty()) {
    out +=
        "<h2>Roles</h2>\n<p class=soft>Shares are of the time from the first to the last work of any role, on average "
        "over the processes of a role.</p>\n";
    HtmlTable t(out, {"role", "#processes", "#works", "#waits for its own", "does nothing while this works"});
    for (const RoleResult& r : a.roles) {
      std::string waits;
      for (const RoleWait& w : r.waits)
        if (w.pct >= 0.1)
          waits += (waits.empty() ? "" : ", ") + (w.working.empty() ? "nobody" : w.working) + number(" %.1f %%", w.pct);
      t.row({r.role, std::to_string(r.processes), number("%.1f %%", r.works_pct), number("%.1f %%", r.own_pct), waits});
    }
  }
  if (!a.kernels.empty()) {
    out +=
        "<h2>Largest kernels</h2>\n<p class=soft>In the steps of all ranks; shares are of the time of all "
        "kernels.</p>\n";
    HtmlTable t(out, {"#total", "#share", "#count", "#mean", "kernel"});
    for (const KernelResult& k : a.kernels)
      t.row({time(k.total_us), number("%.1f %%", k.share_pct), humanCount(k.count), time(k.mean_us),
             k.name.size() > 160 ? k.name.substr(0, 159) + "…" : k.name});
  }
  if (a.critical_path) {
    const CriticalPath& p = *a.critical_path;
    out +=
        "<h2>What if …</h2>\n<p class=soft>" +
        escapedMarkup("The job as one graph over all ranks, replayed; the critical path is " + time(p.total_us) +
                      ", of it work " + number("%.1f %%", 100 * p.work_us / p.total_us) + ", transfers " +
                      number("%.1f %%", 100 * p.transfer_us / p.total_us) +
                      (p.what_if.empty() ? ". There are no what-ifs: the replay is "
                                         : ". The replay reproduces the job within ") +
                      number("%.1f %%", std::abs(p.replay_error_pct)) + (p.what_if.empty() ? " off the job." : ".")) +
        "</p>\n";
    if (!p.what_if.empty()) {
      HtmlTable t(out, {"if", "#job", "#saved", "#step"});
      for (const WhatIf& w : p.what_if)
        t.row({w.what, time(w.job_us), number("%.1f %%", w.saved_pct), time(w.step_us)});
    }
  }
  if (!a.clocks.empty()) {
    out += "<h2>Clocks</h2>\n";
    HtmlTable t(out, {"node", "#offset", "#drift, ppm", "#error bound", "method"});
    for (size_t i = 0; i < a.clocks.size() && i < 64; ++i) {
      const ClockResult& c = a.clocks[i];
      t.row({c.node, humanNs(static_cast<double>(c.offset_ns)), number("%.3f", c.drift_ppm),
             c.bound_ns == kNull ? "–" : humanNs(static_cast<double>(c.bound_ns)), c.method});
    }
  }
  if (!a.losses.empty()) {
    out += "<h2>Losses</h2>\n";
    HtmlTable t(out, {"cause", "#records", "#rank", "detail"});
    for (const LossResult& l : a.losses) t.row({l.cause, humanCount(l.count), id(l.rank), l.detail});
  }
}

/// What the report is about: the file, when it was recorded, and the machines.
std::string subject(const trace::Reader& reader, const std::string& file) {
  std::string text = file;
  const Result<Summary> s = summarize(reader, false);
  if (!s) return text;
  if (s->recorded_ns) text += " · recorded " + utcTime(*s->recorded_ns);
  if (const std::string job = jobText(*s); !job.empty()) text += " · " + job;
  return text;
}

std::string page(const Analysis& a, const std::string& file, const std::string& about) {
  std::string out =
      "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\">\n<title>" +
      escapedMarkup(file) + " – TraceSmith</title>\n<style>" + kStyle + "</style>\n<main>\n<p class=\"soft about\">" +
      escapedMarkup(about) + "</p>\n";
  const bool found = a.verdict.kind == VerdictKind::rank || a.verdict.kind == VerdictKind::link;
  out += std::string("<div class=\"verdict ") +
         (found                                 ? ""
          : a.verdict.kind == VerdictKind::none ? "none"
                                                : "unknown") +
         "\"><h1>" + escapedMarkup(a.verdict.text) + "</h1>\n";
  if (found) out += "<p class=soft>" + number("%.0f %%", 100 * a.verdict.confidence) + " sure</p>";
  if (!a.verdict.next.empty()) out += "<p>What to do: " + escapedMarkup(a.verdict.next) + "</p>\n";
  for (const std::string& s : a.verdict.where) out += "<p>Last seen: " + escapedMarkup(s) + "</p>\n";
  for (const std::string& s : a.verdict.also) out += "<p>Also: " + escapedMarkup(s) + "</p>\n";
  out += "</div>\n";
  if (a.simulated) out += "<p class=soft>Simulated data, not a measurement.</p>\n";
  for (const std::string& s : a.unknowns) out += "<p class=soft>Unknown: " + escapedMarkup(s) + "</p>\n";
  for (const std::string& s : a.notes) out += "<p class=soft>Note: " + escapedMarkup(s) + "</p>\n";
  out += "<div class=tiles>";
  auto tile = [&](const std::string& value, const char* name) {
    out += "<div><b>" + escapedMarkup(value) + "</b><span>" + name + "</span></div>";
  };
  tile(std::to_string(a.ranks), "ranks");
  if (a.nodes > 0) tile(std::to_string(a.nodes), "nodes");
  tile(time(a.duration_us), "recorded");
  if (!a.steps.empty()) {
    if (a.startup_us > 0.01 * a.duration_us) tile(time(a.startup_us), "start-up, not counted");
    tile(time(a.job_us), "job");
    tile(time(a.step_us), "per step");
    tile(std::to_string(a.steps.size()), "steps");
  }
  tile(humanCount(a.events), "events");
  if (!a.pattern.empty()) tile(a.pattern, "communication");
  out += "</div>\n";
  if (a.excerpt) {
    const Excerpt& e = *a.excerpt;
    section(out, "The most expensive collective",
            e.op + " " + std::to_string(e.index) + " of " + e.group +
                (e.step == kNull ? "" : ", step " + std::to_string(e.step)) + ": its ranks waited " +
                time(e.wait_us_total) + " in total for rank " + id(e.culprit_rank) +
                (static_cast<size_t>(e.ranks) > e.lanes.size()
                     ? "; " + std::to_string(e.lanes.size()) + " of " + std::to_string(e.ranks) + " ranks shown"
                     : ""),
            timelinePicture(e));
  }
  section(out, "Where the time goes", "", breakdownPicture(a));
  section(out, "Computation of each rank, step by step", "", heatMapPicture(a));
  std::string matrix = matrixPicture(a);
  if (!matrix.empty()) matrix = "<div class=matrix>" + matrix + "</div>";
  section(out, "Who sends how much to whom",
          "Derived from the algorithm of each collective." + (a.matrix_note.empty() ? "" : " " + a.matrix_note + "."),
          matrix);
  tables(out, a);
  out += "<p class=soft>Made by tracesmith " TRACESMITH_VERSION "</p>\n</main></html>\n";
  return out;
}

int run(Options o) {
  Result<std::unique_ptr<trace::Reader>> reader = openTrace(o.file);
  if (!reader) return fail(reader.status());
  o.analyze.excerpt = true;
  o.analyze.hta = o.analyze.collectives = false;
  std::optional<Progress> progress;
  if (!o.json) progress.emplace("analyzing");
  if (progress) o.analyze.progress = [&](uint64_t done, uint64_t total) { progress->update(done, total); };
  Result<Analysis> a = analyze(**reader, o.analyze);
  progress.reset();
  if (!a) return fail(a.status());
  const std::string html = page(*a, o.file.substr(o.file.find_last_of('/') + 1),
                                subject(**reader, o.file.substr(o.file.find_last_of('/') + 1)));
  Result<OutputFile> output = OutputFile::create(o.output);
  if (!output) return fail(output.status());
  if (Status s = output->write(html); !s) return fail(s);
  if (Status s = output->commit(); !s) return fail(s);
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject()
        .field("file", o.output)
        .field("bytes", static_cast<uint64_t>(html.size()))
        .field("verdict", a->verdict.text)
        .endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s\n%s: %s\n", a->verdict.text.c_str(), o.output.c_str(), humanBytes(html.size()).c_str());
  }
  return finish(**reader, o.strict);
}

}  // namespace

void addReport(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("report", "Write the analysis as one self-contained HTML page");
  addTraceFile(command, "FILE", o->file, "Trace to analyze").required();
  command.option("-o,--output", o->output, "Page to write").required().type("FILE.html");
  command.option("--comm-rules", o->analyze.comm_rules, "Additional rules for which kernels are communication")
      .type("FILE");
  command.option("--threads", o->analyze.threads, "Number of threads; 0 uses all cores").check(range(0, 256));
  command.flag("--json", o->json, "Print a summary as JSON");
  command.flag("--strict", o->strict, "Exit with 1 if a block of the trace is damaged");
  command.footer("The page works offline and has no scripts.\n\nExample:  tracesmith report job.sbt -o report.html");
  command.run([o] { return checkOutput(o->output, {o->file}); }, [o] { return run(*o); });
}

}  // namespace tracesmith::cli
