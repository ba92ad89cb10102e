// Memory that grows from step to step, and memory that ran out, as the Python hooks tell them.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/verdict/job_data.hpp"
#include "base/text.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

struct Row {
  int64_t step = kNull;
  std::map<std::string, double> numbers;
  std::string line;  // of the program
};

struct OfRank {
  std::map<int64_t, double> allocated;       // by step
  std::map<int64_t, Row> out, held, growth;  // by time
};

/// A cell of a table: its series is the column, or "column=text".
void addCell(std::map<int64_t, Row>& rows, const CounterRow& c, std::string_view series, double value) {
  Row& row = rows[c.ts];
  row.step = c.step;
  constexpr std::string_view kLine = "line=";
  if (series.starts_with(kLine))
    row.line = series.substr(kLine.size());
  else
    row.numbers[std::string(series)] = value;
}

struct Growth {
  int64_t since = 0;
  double per_step = 0, bytes = 0;
};

/// Memory grows if of eight parts of the last samples each lies above the one before, by its least and its most: chance
/// does that once in 8!² times. It is looked for from the first sample on, then from later ones.
std::optional<Growth> growthOf(const std::map<int64_t, double>& allocated) {
  constexpr size_t kParts = 8, kLeast = 2 * kParts;
  constexpr double kLeastBytes = 1 << 20;
  const std::vector<std::pair<int64_t, double>> all(allocated.begin(), allocated.end());
  for (size_t first = 0; all.size() - first >= kLeast; first += std::max<size_t>(1, (all.size() - first) / kParts)) {
    const size_t n = all.size() - first;
    auto least = [&](size_t part, bool most) {
      const auto by_bytes = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto from = all.begin() + static_cast<int64_t>(first + n * part / kParts),
                 to = all.begin() + static_cast<int64_t>(first + n * (part + 1) / kParts);
      return (most ? std::max_element(from, to, by_bytes) : std::min_element(from, to, by_bytes))->second;
    };
    bool rises = true;
    for (size_t part = 1; part < kParts; ++part)
      rises = rises && least(part, false) > least(part - 1, false) && least(part, true) > least(part - 1, true);
    if (!rises) continue;
    size_t since = first;  // where it was last no more than at the beginning
    for (size_t i = first; i < all.size(); ++i)
      if (all[i].second <= all[first].second) since = i;
    const double bytes = all.back().second - all[since].second;
    if (bytes >= kLeastBytes)
      return Growth{all[since].first, bytes / static_cast<double>(all.back().first - all[since].first), bytes};
  }
  return {};
}

std::string bytesText(double bytes) { return humanBytes(static_cast<uint64_t>(std::max(0.0, bytes))); }

std::string stepText(int64_t step) { return step == kNull ? "" : " in step " + std::to_string(step); }

/// "12 × 1.1 GB from model.py:88, 1.0 GB from train.py:9", of what was alive at that time.
std::string heldText(const OfRank& rank, int64_t since, int64_t until) {
  constexpr size_t kMost = 3;
  std::vector<const Row*> rows;
  for (auto it = rank.held.lower_bound(since); it != rank.held.end() && it->first < until; ++it)
    rows.push_back(&it->second);
  auto number = [](const Row& r, const char* column) {
    const auto it = r.numbers.find(column);
    return it == r.numbers.end() ? 0 : it->second;
  };
  std::sort(rows.begin(), rows.end(),
            [&](const Row* a, const Row* b) { return number(*a, "bytes") > number(*b, "bytes"); });
  std::string out;
  for (size_t i = 0; i < rows.size() && i < kMost; ++i) {
    const double bytes = number(*rows[i], "bytes"), blocks = number(*rows[i], "blocks");
    out += out.empty() ? "" : ", ";
    if (blocks > 1) out += humanCount(static_cast<uint64_t>(blocks)) + " × ";
    out += bytesText(blocks > 1 ? bytes / blocks : bytes) +
           (rows[i]->line.find(':') == std::string::npos ? " of " : " from ") + rows[i]->line;
  }
  return out;
}

std::string outText(const OfRank& rank, std::map<int64_t, Row>::const_iterator at) {
  const Row& row = at->second;
  const auto next = std::next(at);
  auto number = [&](const char* column) -> std::optional<double> {
    const auto it = row.numbers.find(column);
    return it == row.numbers.end() ? std::nullopt : std::optional(it->second);
  };
  std::string out = " ran out of memory" + stepText(row.step);
  if (!row.line.empty() && row.line != "?") out += " at " + row.line;
  if (const auto allocated = number("allocated"), total = number("total"); allocated && total)
    out += ": " + bytesText(*allocated) + " of " + bytesText(*total) + " were allocated";
  if (const auto wanted = number("wanted")) out += ", " + bytesText(*wanted) + " more were wanted";
  const std::string held = heldText(rank, at->first, next == rank.out.end() ? INT64_MAX : next->first);
  return held.empty() ? out : out + "; the largest: " + held;
}

}  // namespace

Status sayMemory(const Reader& reader, const NameNumbers& names, Analysis& out) {
  const auto table = [](const char* name) { return std::string(model::kUserTable) + name; };
  const std::string out_name = table(model::kOutOfMemory), held_name = table(model::kMemoryHeld),
                    growth_name = table(model::kMemoryGrowth);
  bool any = false;
  for (uint32_t n = 0; n < names.size() && !any; ++n)
    any = names.text(n) == model::kAllocated || names.text(n) == out_name;
  if (!any) return {};
  std::map<std::pair<int64_t, int64_t>, OfRank> ranks;  // by rank and process
  TS_TRY(eachRow<CounterRow>(reader, names, {}, [&](const CounterRow& row, auto&& text) {
    if (row.name == kNull || row.value == kNull) return;
    const std::string_view name = names.text(static_cast<uint32_t>(row.name));
    const double value = std::bit_cast<double>(row.value);
    if (name == model::kAllocated && row.step != kNull)
      ranks[{row.rank, row.pid}].allocated[row.step] = value;
    else if (name == out_name)
      addCell(ranks[{row.rank, row.pid}].out, row, text(counters::series), value);
    else if (name == held_name)
      addCell(ranks[{row.rank, row.pid}].held, row, text(counters::series), value);
    else if (name == growth_name)
      addCell(ranks[{row.rank, row.pid}].growth, row, text(counters::series), value);
  }));
  for (const auto& [key, rank] : ranks) {
    const std::string who =
        key.first != kNull ? "rank " + std::to_string(key.first) : "process " + std::to_string(key.second);
    if (!rank.out.empty()) out.notes.push_back(who + outText(rank, std::prev(rank.out.end())));
    const std::optional<Growth> growth = growthOf(rank.allocated);
    if (!growth) continue;
    std::string text = "memory of " + who + " grows by " + bytesText(growth->per_step) + " per step since step " +
                       std::to_string(growth->since) + ", " + bytesText(growth->bytes) + " so far";
    std::string lines;
    for (const auto& [ts, row] : rank.growth)
      if (const auto it = row.numbers.find("bytes_per_step");
          it != row.numbers.end() && it->second >= growth->per_step / 10)
        lines += (lines.empty() ? ": " : ", ") + bytesText(it->second) + " per step are kept from " + row.line;
    out.notes.push_back(text + lines);
  }
  return {};
}

}  // namespace tracesmith::analysis
