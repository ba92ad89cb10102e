// Recompilations and graph breaks of torch.compile, as the Python hooks tell them.
#include <algorithm>
#include <map>
#include <set>

#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"
#include "base/text.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

struct Place {
  uint64_t count = 0;
  int64_t ns = 0;
  std::set<int64_t> ranks, steps;
  std::string reason;  // the last one
};

std::string stepsText(const std::set<int64_t>& steps) {
  if (steps.empty()) return "";
  const std::string first = std::to_string(*steps.begin()), last = std::to_string(*steps.rbegin());
  return first == last ? " in step " + first : " in steps " + first + " to " + last;
}

void say(const std::map<std::string, Place>& places, const char* did, Analysis& out) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<std::string, Place>> largest(places.begin(), places.end());
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  for (size_t i = 0; i < largest.size() && i < kMost; ++i) {
    const auto& [where, p] = largest[i];
    std::string text =
        "torch.compile " + std::string(did) + " " + where + " " + counted(p.count, "time") + stepsText(p.steps);
    if (p.ranks.size() > 1) text += " on " + counted(p.ranks.size(), "rank");
    if (p.ns > 0) text += ", which took " + humanNs(static_cast<double>(p.ns));
    out.notes.push_back(text + (p.reason.empty() ? "" : ": " + p.reason));
  }
}

}  // namespace

Status sayCompilations(const Reader& reader, const NameNumbers& names, Analysis& out) {
  bool any = false;
  for (uint32_t n = 0; n < names.size() && !any; ++n)
    any = names.text(n).starts_with(model::kRecompile) || names.text(n).starts_with(model::kGraphBreak);
  if (!any) return {};
  std::map<std::string, Place> recompiled, broken;
  Selection selection;
  selection.types = 1ull << static_cast<int>(EventType::annotation) | 1ull << static_cast<int>(EventType::marker);
  RowCursor<EventRow> rows(reader, {events::dur, events::name, events::step, events::rank}, std::move(selection),
                           &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.name == kNull) continue;
    std::string_view name = names.text(static_cast<uint32_t>(row.name));
    const bool again = name.starts_with(model::kRecompile);
    if (!again && !name.starts_with(model::kGraphBreak)) continue;
    name.remove_prefix(again ? model::kRecompile.size() : model::kGraphBreak.size());
    const size_t colon = name.find(": ");
    Place& p = (again ? recompiled : broken)[std::string(name.substr(0, colon))];
    ++p.count;
    if (row.dur != kNull) p.ns += row.dur;
    if (row.rank != kNull) p.ranks.insert(row.rank);
    if (row.step != kNull) p.steps.insert(row.step);
    if (colon != std::string_view::npos) p.reason = name.substr(colon + 2);
  }
  TS_TRY(rows.status());
  say(recompiled, "recompiled", out);
  say(broken, "broke the graph at", out);
  return {};
}

}  // namespace tracesmith::analysis
