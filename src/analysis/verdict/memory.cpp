// Memory that grows from step to step, and memory that ran out, as the Python hooks tell them.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/verdict/job_data.hpp"
#include "analysis/verdict/memory.hpp"
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

double numberOf(const Row& row, const char* column) {
  const auto it = row.numbers.find(column);
  return it == row.numbers.end() ? 0 : it->second;
}

using Ranks = std::map<std::pair<int64_t, int64_t>, OfRank>;  // by rank and process

std::string tableName(const char* name) { return std::string(model::kUserTable) + name; }

Status readRanks(const Reader& reader, const NameNumbers& names, Ranks& ranks) {
  const std::string out_name = tableName(model::kOutOfMemory), held_name = tableName(model::kMemoryHeld),
                    growth_name = tableName(model::kMemoryGrowth);
  return eachRow<CounterRow>(reader, names, {}, [&](const CounterRow& row, auto&& text) {
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
  });
}

/// The last time that a process did.
OutOfMemory lastOut(const Ranks::value_type& of) {
  const auto& [key, rank] = of;
  const auto& [at, row] = *std::prev(rank.out.end());
  auto known = [](int64_t v) { return v == kNull ? std::nullopt : std::optional(v); };
  auto number = [&row = row](const char* column) -> std::optional<double> {
    const auto it = row.numbers.find(column);
    return it == row.numbers.end() ? std::nullopt : std::optional(it->second);
  };
  OutOfMemory out{known(key.first),    known(key.second), known(row.step),  row.line == "?" ? "" : row.line,
                  number("allocated"), number("total"),   number("wanted"), {}};
  for (auto it = rank.held.lower_bound(at); it != rank.held.end(); ++it)
    out.held.push_back({it->second.line, numberOf(it->second, "bytes"), numberOf(it->second, "blocks")});
  std::stable_sort(out.held.begin(), out.held.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

std::string processText(std::optional<int64_t> rank, std::optional<int64_t> pid) {
  if (rank) return "rank " + std::to_string(*rank);
  return pid ? "process " + std::to_string(*pid) : "a process";
}

std::string who(const std::pair<int64_t, int64_t>& process) {
  return processText(process.first == kNull ? std::nullopt : std::optional(process.first), process.second);
}

}  // namespace

std::string OutOfMemory::text(size_t most) const {
  std::string out = processText(rank, pid) + " ran out of memory";
  if (step) out += " in step " + std::to_string(*step);
  if (!line.empty()) out += " at " + line;
  if (allocated && total) out += ": " + bytesText(*allocated) + " of " + bytesText(*total) + " were allocated";
  if (wanted) out += ", " + bytesText(*wanted) + " more were wanted";
  for (size_t i = 0; i < held.size() && i < most; ++i) {
    const Held& h = held[i];
    out += i == 0 ? "; the largest: " : ", ";
    if (h.blocks > 1) out += humanCount(static_cast<uint64_t>(h.blocks)) + " × ";
    out += bytesText(h.blocks > 1 ? h.bytes / h.blocks : h.bytes) +
           (h.line.find(':') == std::string::npos ? " of " : " from ") + h.line;
  }
  return out;
}

Result<std::vector<OutOfMemory>> findOutOfMemory(const Reader& reader) {
  std::vector<OutOfMemory> all;
  bool any = false;
  TS_TRY(forEachRow(reader, tableOf<MetadataRow>(), {}, {}, [&](const trace::Row& row) {
    any |= row.text(metadata::key) == tableName(model::kOutOfMemory);
    return Status();
  }));
  if (!any) return all;
  Result<NameNumbers> names = NameNumbers::load(reader);
  if (!names) return names.status();
  Ranks ranks;
  TS_TRY(readRanks(reader, *names, ranks));
  for (const auto& rank : ranks)
    if (!rank.second.out.empty()) all.push_back(lastOut(rank));
  return all;
}

Status sayMemory(const Reader& reader, const NameNumbers& names, Analysis& out) {
  const std::string out_name = tableName(model::kOutOfMemory);
  bool any = false;
  for (uint32_t n = 0; n < names.size() && !any; ++n)
    any = names.text(n) == model::kAllocated || names.text(n) == out_name;
  if (!any) return {};
  Ranks ranks;
  TS_TRY(readRanks(reader, names, ranks));
  for (const auto& of : ranks) {
    const auto& [key, rank] = of;
    if (!rank.out.empty()) out.notes.push_back(lastOut(of).text(3));
    const std::optional<Growth> growth = growthOf(rank.allocated);
    if (!growth) continue;
    std::string text = "memory of " + who(key) + " grows by " + bytesText(growth->per_step) + " per step since step " +
                       std::to_string(growth->since) + ", " + bytesText(growth->bytes) + " so far";
    std::map<std::string, double> kept;  // by line; of several looks at what is alive the last one counts
    for (const auto& [ts, row] : rank.growth)
      if (const auto it = row.numbers.find("bytes_per_step"); it != row.numbers.end()) kept[row.line] = it->second;
    std::vector<std::pair<double, std::string>> lines;
    for (const auto& [line, bytes] : kept)
      if (bytes >= growth->per_step / 10) lines.emplace_back(bytes, line);
    std::sort(lines.rbegin(), lines.rend());
    for (const auto& [bytes, line] : lines)
      text += (&bytes == &lines.front().first ? ": " : ", ") + bytesText(bytes) + " per step are kept from " + line;
    out.notes.push_back(text);
  }
  return {};
}

}  // namespace tracesmith::analysis
