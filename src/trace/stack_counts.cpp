#include "trace/stack_counts.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "trace/rows.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {
namespace {

/// The separator of frames cannot be in one.
void appendPart(std::string& out, std::string_view part) {
  for (const char c : part) out += c == kFrameSeparator ? ',' : c;
}

using ThreadKey = std::tuple<std::string, int64_t, int64_t>;

Status readNames(const Reader& reader, std::map<ThreadKey, std::string>& names) {
  RowCursor<ThreadRow> row(reader, {threads::node, threads::pid, threads::tid, threads::name});
  while (row.next())
    names[{std::string(row.text(threads::node)), row.row().pid, row.row().tid}] = row.text(threads::name);
  return row.status();
}

/// What `sample` says about itself.
Status readSession(const Reader& reader, StackCounts& out) {
  RowCursor<MetadataRow> row(reader, {metadata::key, metadata::value});
  while (row.next()) {
    const std::string value(row.text(metadata::value));
    if (row.text(metadata::key) == kStacksRate) out.rate = std::max(out.rate, std::atof(value.c_str()));
    if (row.text(metadata::key) == kStacksSeconds) out.seconds = std::max(out.seconds, std::atof(value.c_str()));
  }
  return row.status();
}

}  // namespace

std::string pythonFrame(std::string_view function, std::string_view file, std::optional<int64_t> line) {
  std::string out;
  appendPart(out, function.empty() ? "?" : function);
  out += " (";
  appendPart(out, file);
  if (line) out += ":" + std::to_string(*line);
  return out + ")";
}

std::string nativeFrame(std::string_view function, std::string_view file, std::optional<uint64_t> address) {
  std::string out;
  appendPart(out, function.empty() ? "?" : function);
  out += " [";
  appendPart(out, file.empty() ? "unknown" : file.substr(file.rfind('/') + 1));
  if (function.empty() && !file.empty() && address) {
    char text[24];
    std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(*address));
    out += text;
  }
  return out + "]";
}

uint32_t StackTable::frame(std::string_view text) {
  const auto [at, added] = numbers_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
  if (added) texts_.push_back(&at->first);
  return at->second;
}

uint32_t StackTable::stack(std::span<const uint32_t> frames) {
  uint32_t node = kNone;
  for (const uint32_t f : frames) {
    const auto [at, added] = below_.try_emplace(uint64_t{node} << 32 | f, static_cast<uint32_t>(nodes_.size()));
    if (added) nodes_.push_back({node, f});
    node = at->second;
  }
  return node;
}

uint32_t StackTable::parse(std::string_view text) {
  std::vector<uint32_t> frames;
  while (!text.empty()) {
    const size_t end = std::min(text.find(kFrameSeparator), text.size());
    frames.push_back(frame(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return stack(frames);
}

std::vector<uint32_t> StackTable::framesOf(uint32_t stack) const {
  std::vector<uint32_t> frames;
  for (; stack != kNone; stack = nodes_[stack].callers) frames.push_back(nodes_[stack].frame);
  std::reverse(frames.begin(), frames.end());
  return frames;
}

std::string StackTable::textOf(uint32_t stack) const {
  std::string out;
  for (const uint32_t f : framesOf(stack)) {
    if (!out.empty()) out += kFrameSeparator;
    out += text(f);
  }
  return out;
}

uint64_t StackCounts::samples() const {
  uint64_t all = 0;
  for (const auto& [at, count] : counts) all += count.all();
  return all;
}

Result<StackCounts> readStacks(const Reader& reader) {
  StackCounts out;
  std::map<ThreadKey, std::string> names;
  std::map<ThreadKey, uint32_t> numbers;
  std::map<std::pair<std::string, int64_t>, size_t> found;
  TS_TRY(readNames(reader, names));
  TS_TRY(readSession(reader, out));
  const auto processOf = [&](const std::string& node, int64_t pid, int64_t rank) {
    const auto [at, added] = found.try_emplace({node, pid}, out.processes.size());
    if (added) {
      out.processes.emplace_back();
      out.processes.back().node = node;
      out.processes.back().pid = pid;
      if (rank != kNull) out.processes.back().rank = rank;
    }
    return at->second;
  };
  RowCursor<StackRow> row(
      reader, {stacks::node, stacks::rank, stacks::pid, stacks::tid, stacks::state, stacks::samples, stacks::stack});
  while (row.next()) {
    const StackRow& r = row.row();
    const std::string node(row.text(stacks::node));
    const ThreadKey key{node, r.pid, r.tid};
    const auto [at, added] = numbers.try_emplace(key, static_cast<uint32_t>(out.threads.size()));
    if (added) {
      StackCounts::Thread thread;
      thread.process = processOf(node, r.pid, r.rank);
      if (r.tid != kNull) thread.tid = r.tid;
      if (const auto name = names.find(key); name != names.end()) thread.name = name->second;
      out.threads.push_back(std::move(thread));
    }
    const std::string_view state = row.text(stacks::state);
    const StackCounts::State kind = state == kOnCpu     ? StackCounts::on_cpu
                                    : state == kWaiting ? StackCounts::waiting
                                                        : StackCounts::unknown;
    out.counts[StackCounts::key(at->second, out.table.parse(row.text(stacks::stack)))].samples[kind] +=
        r.samples == kNull ? 1 : static_cast<uint64_t>(std::max<int64_t>(0, r.samples));
  }
  TS_TRY(row.status());
  if (out.counts.empty()) return Status::notFound(reader.path() + " has no samples of stacks (table stacks)");
  RowCursor<ProcessRow> process(reader, {processes::node, processes::pid, processes::command});
  while (process.next())
    if (const auto at = found.find({std::string(process.text(processes::node)), process.row().pid}); at != found.end())
      out.processes[at->second].command = process.text(processes::command);
  TS_TRY(process.status());
  // Its first thread was seen at every look.
  std::vector<uint64_t> seen(out.threads.size());
  for (const auto& [at, count] : out.counts) seen[StackCounts::threadOf(at)] += count.all();
  for (size_t i = 0; i < seen.size(); ++i) {
    uint64_t& looks = out.processes[out.threads[i].process].looks;
    looks = std::max(looks, seen[i]);
  }
  out.simulated = isSimulated(reader);
  return out;
}

}  // namespace tracesmith::trace
