#include "cluster/agent/asked_stacks.hpp"

#include "base/clock.hpp"
#include "trace/stack_counts.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kMostKept = 16;  // answers; a session that begins in the past may still want them

/// The outermost frame first, as the table has it.
std::string textOf(const ThreadStack& thread) {
  std::string out;
  for (auto f = thread.frames.rbegin(); f != thread.frames.rend(); ++f)
    out += (out.empty() ? "" : std::string(1, trace::kFrameSeparator)) +
           (f->python ? trace::pythonFrame(f->function, f->file, f->line)
                      : trace::nativeFrame(f->function, f->file, f->address));
  return out;
}

}  // namespace

void AskedStacks::put(const std::vector<Stacks>& stacks) {
  if (stacks.empty()) return;
  std::lock_guard lock(mutex_);
  read_.push_back({rawClock(), stacks});
  if (read_.size() > kMostKept) read_.pop_front();
}

Result<size_t> AskedStacks::take(trace::Writer& writer, trace::Appender& out, int64_t node, int64_t since_raw) {
  std::deque<Read> taken;
  {
    std::lock_guard lock(mutex_);
    taken.swap(read_);
  }
  size_t rows = 0;
  for (const Read& read : taken) {
    if (read.ts < since_raw) continue;
    for (const Stacks& s : read.stacks)
      for (const ThreadStack& t : s.threads) {
        if (t.frames.empty()) continue;
        trace::StackRow row;
        row.ts = read.ts;
        row.node = node;
        row.rank = s.rank.value_or(trace::kNull);
        row.pid = s.pid;
        row.tid = t.tid.value_or(trace::kNull);
        row.state = t.state.empty() ? trace::kNull : writer.string(t.state == "R" ? trace::kOnCpu : trace::kWaiting);
        if (t.holds_gil) row.gil = *t.holds_gil;
        row.samples = 1;
        row.stack = writer.string(textOf(t));
        TS_TRY(out.append(row));
        ++rows;
      }
  }
  return rows;
}

}  // namespace tracesmith::cluster
