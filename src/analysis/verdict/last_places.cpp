// Where ranks were in their programs when the trace ended.
#include <map>

#include "analysis/verdict/unfinished.hpp"
#include "trace/rows.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr size_t kMostRanks = 16, kMostFrames = 4;

/// Of "step (/home/ada/train.py:12)": step (train.py:12).
std::string shortFrame(std::string_view frame) {
  const size_t place = frame.rfind(" (");
  const size_t slash = frame.rfind('/');
  if (place == std::string_view::npos || slash == std::string_view::npos || slash < place) return std::string(frame);
  return std::string(frame.substr(0, place + 2)) + std::string(frame.substr(slash + 1));
}

/// The innermost frames first.
std::string placeText(std::string_view stack) {
  std::string out;
  for (size_t n = 0; n < kMostFrames && !stack.empty(); ++n) {
    const size_t separator = stack.rfind(';');
    const std::string_view frame = separator == std::string_view::npos ? stack : stack.substr(separator + 1);
    out += (n == 0 ? "" : n == 1 ? ", called from " : ", ") + shortFrame(frame);
    stack = separator == std::string_view::npos ? std::string_view() : stack.substr(0, separator);
  }
  return out;
}

}  // namespace

std::vector<std::string> lastPlaces(const Reader& reader, const std::vector<int64_t>& ranks) {
  struct Last {
    int64_t ts = INT64_MIN;
    bool first_thread = false;
    std::string stack;
  };
  std::map<int64_t, Last> last;
  for (const int64_t r : ranks)
    if (last.size() < kMostRanks) last[r];
  RowCursor<StackRow> row(reader, {stacks::ts, stacks::rank, stacks::pid, stacks::tid, stacks::stack});
  while (row.next()) {
    const StackRow& r = row.row();
    const auto at = last.find(r.rank);
    if (at == last.end()) continue;
    const bool first_thread = r.tid == r.pid;
    Last& l = at->second;
    if (first_thread < l.first_thread || (first_thread == l.first_thread && r.ts < l.ts)) continue;
    l = {r.ts, first_thread, std::string(row.text(stacks::stack))};
  }
  std::vector<std::string> out;
  for (const auto& [rank, l] : last)
    if (!l.stack.empty()) out.push_back("rank " + std::to_string(rank) + ": " + placeText(l.stack));
  return out;
}

}  // namespace tracesmith::analysis
