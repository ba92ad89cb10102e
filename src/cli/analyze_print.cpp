#include "cli/analyze_print.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "tracesmith/analysis/comm_matrix.hpp"

namespace tracesmith::cli {
namespace {

using namespace analysis;
using trace::kNull;
using Table = std::vector<std::vector<std::string>>;

std::string number(const char* format, double v) {
  if (!std::isfinite(v)) return "-";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, v);
  return buffer;
}
std::string id(int64_t v) { return v == kNull ? "-" : std::to_string(v); }
std::string time(double us) { return std::isfinite(us) ? humanNs(us * 1000) : "-"; }
std::string size(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  return (bytes < 0 ? "-" : "") + humanBytes(static_cast<uint64_t>(std::fabs(bytes)));
}
std::string percent(double part, double whole) { return whole > 0 ? number("%.1f %%", 100 * part / whole) : "-"; }

/// Sums over steps.
struct Total {
  double wall = 0, forward = 0, backward = 0, optimizer = 0, other = 0, data = 0, exposed = 0, hidden = 0, idle = 0;
  bool phases = false;
  void add(const Breakdown& b) {
    wall += b.compute_us + b.data_us + b.exposed_comm_us + b.idle_us;
    phases = phases || std::isfinite(b.forward_us);
    if (std::isfinite(b.forward_us)) forward += b.forward_us, backward += b.backward_us, optimizer += b.optimizer_us;
    other += b.other_us;
    data += b.data_us;
    exposed += b.exposed_comm_us;
    hidden += b.hidden_comm_us;
    idle += b.idle_us;
  }
  std::vector<std::string> cells() const {
    auto phase = [&](double v) { return phases ? percent(v, wall) : std::string("-"); };
    return {phase(forward),      phase(backward),        phase(optimizer),      percent(other, wall),
            percent(data, wall), percent(exposed, wall), percent(hidden, wall), percent(idle, wall)};
  }
};

/// The farthest that clocks of two nodes can be off; not a number where there is one, or nothing is known.
double clockBound(const Analysis& a) {
  double bound = NAN;
  for (const ClockResult& c : a.clocks)
    if (a.clocks.size() > 1 && c.bound_ns != kNull) bound = std::fmax(bound, static_cast<double>(c.bound_ns));
  return bound;
}

void blameTable(const Analysis& a, size_t most, std::string& out) {
  if (a.blame.empty()) return;
  const double bound = clockBound(a);
  auto waited = [bound](double us) { return std::isfinite(us) ? humanNsWithin(us * 1000, bound) : "-"; };
  Table table = {{"rank", "node", "others waited", "exposed", "collectives", "slowdown", "cause", "sure"}};
  for (size_t i = 0; i < a.blame.size() && i < most; ++i) {
    const Blame& b = a.blame[i];
    table.push_back({id(b.rank), printable(b.node.empty() ? "-" : b.node), waited(b.cost_us), waited(b.lost_us),
                     humanCount(b.collectives), number("%.2f ×", b.slowdown), titleOf(b.cause),
                     number("%.0f %%", 100 * b.confidence)});
  }
  out += "\nWho the others waited for (summed over the waiting ranks)\n" + tableText(table, "  ");
  for (const Blame& b : a.blame)
    if (b.significant) out += "  rank " + id(b.rank) + ": " + printable(b.evidence) + "\n";
  // What has no cause in a rank's own work is explained once.
  for (const Blame& b : a.blame)
    if (!b.significant && !b.evidence.empty()) {
      out += "  unknown: " + printable(b.evidence.substr(b.evidence.find("; ") + 2)) + "\n";
      break;
    }
  for (const LinkResult& l : a.links)
    if (l.significant) out += "  " + printable(l.group) + ": " + printable(l.evidence) + "\n";
}

void linkTable(const Analysis& a, size_t most, std::string& out) {
  Table table = {{"group", "ranks", "collectives", "slowdown", "GB/s", "sure", "compared with"}};
  for (const LinkResult& l : a.links) {
    if (table.size() > most) break;
    table.push_back({printable(l.group), std::to_string(l.ranks.size()), humanCount(l.collectives),
                     number("%.2f ×", l.slowdown), number("%.1f", l.busbw_gbps),
                     l.significant ? number("%.0f %%", 100 * l.confidence) : "-", l.compared_with});
  }
  if (table.size() > 1) out += "\nTransfers (slowest first)\n" + tableText(table, "  ");
}

void breakdownTable(const Analysis& a, bool ranks, std::string& out) {
  if (a.breakdown.empty()) return;
  Total all;
  std::map<int64_t, Total> by_rank;
  for (const Breakdown& b : a.breakdown) {
    all.add(b);
    by_rank[b.rank].add(b);
  }
  Table table = {{"rank", "forward", "backward", "optimizer", "other", "data", "exposed comm", "hidden comm", "idle"}};
  auto row = [&](const std::string& name, const Total& t) {
    std::vector<std::string> cells = t.cells();
    cells.insert(cells.begin(), name);
    table.push_back(std::move(cells));
  };
  row("all", all);
  if (ranks)
    for (const auto& [rank, total] : by_rank) row(id(rank), total);
  out += "\nWhere the time goes\n" + tableText(table, "  ");
}

void kernelTable(const Analysis& a, size_t most, std::string& out) {
  if (a.kernels.empty()) return;
  Table table = {{"total", "share", "count", "mean", "name"}};
  for (size_t i = 0; i < a.kernels.size() && i < most; ++i) {
    const KernelResult& k = a.kernels[i];
    table.push_back({time(k.total_us), number("%.1f %%", k.share_pct), humanCount(k.count), time(k.mean_us),
                     shorten(printable(k.name), 80)});
  }
  out += "\nLargest kernels\n" + tableText(table, "  ");
}

void roleTable(const Analysis& a, std::string& out) {
  if (a.roles.empty()) return;
  Table table = {{"role", "processes", "works", "waits for its own", "does nothing while this works"}};
  for (const RoleResult& r : a.roles) {
    std::string waits;
    for (const RoleWait& w : r.waits)
      if (w.pct >= 0.1)
        waits += (waits.empty() ? "" : ", ") + (w.working.empty() ? "nobody" : printable(w.working)) +
                 number(" %.1f %%", w.pct);
    table.push_back({printable(r.role), std::to_string(r.processes), number("%.1f %%", r.works_pct),
                     number("%.1f %%", r.own_pct), waits});
  }
  out += "\nRoles\n" + tableText(table, "  ");
}

/// Modules with the same pattern in one line.
void moduleTable(const Analysis& a, size_t most, std::string& out) {
  std::map<std::pair<std::string, std::string>, ModuleResult> groups;
  std::map<const ModuleResult*, uint64_t> counts;
  for (const ModuleResult& m : a.modules) {
    ModuleResult& g = groups[{m.pattern, m.kind}];
    g.name = m.pattern + (m.kind.empty() ? "" : " (" + m.kind + ")");
    g.total_us += m.total_us, g.forward_us += m.forward_us, g.backward_us += m.backward_us, g.own_us += m.own_us;
    g.share_pct += m.share_pct;
    g.flops = counts[&g] == 0 ? m.flops : g.flops + m.flops;
    g.kept_bytes = counts[&g] == 0 ? m.kept_bytes : g.kept_bytes + m.kept_bytes;
    g.peak_bytes = std::fmax(g.peak_bytes, m.peak_bytes);
    ++counts[&g];
  }
  std::vector<const ModuleResult*> sorted;
  for (const auto& [key, g] : groups)
    if (g.total_us > 0 || std::isfinite(g.peak_bytes)) sorted.push_back(&g);  // a summary has no times of modules
  if (sorted.empty()) return;
  std::stable_sort(sorted.begin(), sorted.end(), [](auto* x, auto* y) { return x->total_us > y->total_us; });
  if (sorted.size() > most) sorted.resize(most);
  const bool memory = std::any_of(sorted.begin(), sorted.end(), [](auto* g) { return std::isfinite(g->peak_bytes); });
  Table table = {{"total", "share", "forward", "backward", "own", "TFLOP/s"}};
  if (memory) table[0].insert(table[0].end(), {"keeps", "memory"});
  table[0].insert(table[0].end(), {"count", "name"});
  for (const ModuleResult* g : sorted) {
    auto known = [g](double us) { return g->total_us > 0 ? time(us) : "-"; };
    std::vector<std::string>& row = table.emplace_back(std::vector<std::string>{
        known(g->total_us), number("%.1f %%", g->total_us > 0 ? g->share_pct : NAN), known(g->forward_us),
        known(g->backward_us), known(g->own_us), number("%.3g", g->total_us > 0 ? g->flops / g->total_us / 1e6 : NAN)});
    if (memory) row.insert(row.end(), {size(g->kept_bytes), size(g->peak_bytes)});
    row.insert(row.end(), {humanCount(counts[g]), shorten(printable(g->name), 80)});
  }
  const bool gpu = std::isfinite(a.modules[0].launch_us);
  out += std::string("\nModules, with all in them: ") + (gpu ? "GPU" : "host") + " time of a step of a rank\n" +
         tableText(table, "  ");
}

void rateText(const Analysis& a, std::string& out) {
  if (!a.rate) return;
  const ModelRate& r = *a.rate;
  std::vector<std::string> parts;
  if (std::isfinite(r.mfu_pct)) {
    parts.push_back("MFU " + number("%.1f %%", r.mfu_pct));
    if (a.ranks > 1 && r.mfu_low_pct < 0.9 * r.mfu_pct)
      parts.back() += ", " + number("%.1f %%", r.mfu_low_pct) + " on rank " + id(r.mfu_low_rank);
    if (!r.how.empty()) parts.back() += " (" + printable(r.how) + ")";
  }
  if (std::isfinite(r.step_flops)) {
    const bool large = r.step_flops >= 1e11;
    parts.push_back(number(large ? "%.4g TFLOP" : "%.4g MFLOP", r.step_flops / (large ? 1e12 : 1e6)) +
                    " in a step of a rank");
  }
  if (std::isfinite(r.samples_per_s))
    parts.push_back(number(r.samples_per_s < 100 ? "%.3g samples/s" : "%.0f samples/s", r.samples_per_s));
  if (std::isfinite(r.tokens_per_s))
    parts.push_back(number(r.tokens_per_s < 100 ? "%.3g tokens/s" : "%.0f tokens/s", r.tokens_per_s));
  for (size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? "; " : "") + parts[i];
  out += "\n";
}

void pathText(const Analysis& a, std::string& out) {
  if (!a.critical_path) return;
  const CriticalPath& p = *a.critical_path;
  out += "\nCritical path over all ranks: " + time(p.total_us) + ", work " + percent(p.work_us, p.total_us) +
         ", transfers " + percent(p.transfer_us, p.total_us) + "\n";
  std::string ranks;
  for (size_t i = 0; i < p.ranks.size() && i < 5; ++i)
    ranks += (i ? ", " : "") + std::string("rank ") + id(p.ranks[i].rank) + " " + percent(p.ranks[i].us, p.total_us);
  if (!ranks.empty()) out += "  through " + ranks + (p.ranks.size() > 5 ? ", …" : "") + "\n";
  const std::string error = number("%.1f %%", std::abs(p.replay_error_pct));
  if (p.what_if.empty()) {
    out += std::abs(p.replay_error_pct) <= 100 ? "\nNo what-ifs: the replay is " + error + " off the job\n"
                                               : "\nNo what-ifs: the replay does not reproduce the job\n";
    return;
  }
  Table table = {{"if", "job", "saved", "step"}};
  for (const WhatIf& w : p.what_if)
    table.push_back({printable(w.what), time(w.job_us), number("%.1f %%", w.saved_pct), time(w.step_us)});
  out += "\nWhat if … (the replay reproduces the job within " + error + ")\n" + tableText(table, "  ");
}

void stepTable(const Analysis& a, std::string& out) {
  Table table = {{"step", "ranks", "duration", "slowest", "rank"}};
  for (const StepResult& s : a.steps)
    table.push_back({id(s.step), std::to_string(s.ranks), time(s.duration_us), time(s.slowest_us), id(s.slowest_rank)});
  if (table.size() > 1) out += "\nSteps\n" + tableText(table, "  ");
}

void commText(const Analysis& a, std::string& out) {
  int64_t most = -1;
  for (const MatrixCell& c : a.matrix) most = std::max({most, c.from, c.to});
  std::vector<std::vector<uint64_t>> bytes(static_cast<size_t>(most + 1),
                                           std::vector<uint64_t>(static_cast<size_t>(most + 1), 0));
  for (const MatrixCell& c : a.matrix)
    if (c.from >= 0 && c.to >= 0) bytes[static_cast<size_t>(c.from)][static_cast<size_t>(c.to)] = c.bytes;
  out += "\nWho sends to whom\n" + matrixAscii(bytes);
  if (!a.matrix_note.empty()) out += "  " + a.matrix_note + "\n";
}

}  // namespace

std::string communicationText(const Analysis& a) {
  std::string out = counted(static_cast<uint64_t>(a.ranks), "rank");
  out += a.matrix.empty() ? ", no communication\n" : ", communication pattern: " + a.pattern + "\n";
  if (a.matrix.empty()) return out;
  std::vector<MatrixCell> cells = a.matrix;
  std::stable_sort(cells.begin(), cells.end(), [](const auto& x, const auto& y) { return x.bytes > y.bytes; });
  if (cells.size() > 10) cells.resize(10);
  Table table = {{"from", "to", "bytes", "operations", "average"}};
  for (const MatrixCell& c : cells)
    table.push_back(
        {std::to_string(c.from), std::to_string(c.to), humanBytes(c.bytes), humanCount(c.count), time(c.latency_us)});
  out += "\nLargest transfers\n" + tableText(table, "  ");
  linkTable(a, SIZE_MAX, out);
  commText(a, out);
  return out;
}

std::string communicationJson(const Analysis& a) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("ranks", static_cast<int64_t>(a.ranks)).field("pattern", a.pattern);
  w.key("matrix").beginArray();
  for (const MatrixCell& c : a.matrix)
    w.beginObject()
        .field("from", c.from)
        .field("to", c.to)
        .field("bytes", c.bytes)
        .field("count", c.count)
        .field("latency_us", c.latency_us)
        .endObject();
  w.endArray().endObject();
  return text;
}

std::string analyzeText(const Analysis& a, const AnalyzePrint& print) {
  std::string out = printable(a.verdict.text);
  if (a.verdict.kind == VerdictKind::rank || a.verdict.kind == VerdictKind::link)
    out += " (" + number("%.0f %%", 100 * a.verdict.confidence) + " sure)";
  out += "\n";
  if (!a.verdict.next.empty()) out += "  what to do: " + printable(a.verdict.next) + "\n";
  for (const std::string& s : a.verdict.where) out += "  last seen: " + printable(s) + "\n";
  for (const std::string& s : a.verdict.also) out += "  also: " + printable(s) + "\n";
  for (const std::string& s : a.unknowns) out += "  unknown: " + printable(s) + "\n";
  for (const std::string& s : a.notes) out += "  note: " + printable(s) + "\n";
  out += "\n" + counted(a.events, "event") + " of " + counted(static_cast<uint64_t>(a.ranks), "rank") +
         (a.nodes > 0 ? " on " + counted(static_cast<uint64_t>(a.nodes), "node") : "") + ", " + time(a.duration_us);
  if (!a.steps.empty()) {
    out += " recorded: " + counted(a.steps.size(), "step") + " of " + time(a.step_us) + " in " + time(a.job_us);
    if (a.startup_us > 0.01 * a.duration_us) out += ", start-up " + time(a.startup_us) + " (not counted)";
  }
  if (!a.pattern.empty()) out += ", communication pattern: " + a.pattern;
  out += "\n";
  rateText(a, out);
  blameTable(a, print.ranks ? SIZE_MAX : 5, out);
  linkTable(a, print.ranks ? SIZE_MAX : 5, out);
  breakdownTable(a, print.ranks, out);
  roleTable(a, out);
  kernelTable(a, print.ranks ? SIZE_MAX : 8, out);
  moduleTable(a, print.ranks ? SIZE_MAX : 12, out);
  pathText(a, out);
  if (print.steps) stepTable(a, out);
  if (print.comm) commText(a, out);
  if (!a.losses.empty()) {
    Table table = {{"lost", "count", "rank"}};
    for (const LossResult& l : a.losses) table.push_back({printable(l.cause), humanCount(l.count), id(l.rank)});
    out += "\nLosses\n" + tableText(table, "  ");
  }
  return out;
}

}  // namespace tracesmith::cli
