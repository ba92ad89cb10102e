#include "process/stack_rows.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace tracesmith::process {

using namespace trace;

namespace {

constexpr int64_t kLongestRowNs = 2'000'000'000;  // so much is missing at most if the writer is killed
constexpr size_t kMostTexts = 1 << 16;

int64_t orNull(const std::optional<int64_t>& v) { return v.value_or(kNull); }

}  // namespace

StackRows::StackRows(Writer& writer, const StackCounts& counts)
    : writer_(writer), counts_(counts), out_(writer.appender()) {}

int64_t StackRows::stackText(uint32_t stack) {
  if (stack == StackTable::kNone) return kNull;
  if (texts_.size() > kMostTexts) texts_.clear();
  const auto [at, added] = texts_.try_emplace(stack);
  if (added) at->second = writer_.string(counts_.table.textOf(stack));
  return at->second;
}

Status StackRows::sample(int64_t ts, uint32_t thread, const ThreadSample& sample) {
  if (thread >= open_.size()) open_.resize(thread + 1);
  Open& o = open_[thread];
  const int64_t state = sample.on_cpu ? writer_.string(*sample.on_cpu ? kOnCpu : kWaiting) : kNull;
  if (o.open && (o.stack != sample.stack || o.row.state != state || ts - o.row.ts > kLongestRowNs)) TS_TRY(end(o, ts));
  if (!o.open) {
    const StackCounts::Thread& t = counts_.threads[thread];
    const StackCounts::Process& p = counts_.processes[t.process];
    o.open = true;
    o.stack = sample.stack;
    o.row = {};
    o.row.ts = ts;
    o.row.node = writer_.string(p.node);
    o.row.rank = orNull(p.rank);
    o.row.pid = p.pid;
    o.row.tid = orNull(t.tid);
    o.row.state = state;
    o.row.samples = 0;
    if (sample.holds_gil) o.row.gil = 0;
    o.row.stack = stackText(sample.stack);
  }
  ++o.row.samples;
  if (sample.holds_gil && o.row.gil != kNull) o.row.gil += *sample.holds_gil;
  o.last_ns = ts;
  return {};
}

Status StackRows::end(Open& open, int64_t at_ns) {
  open.row.dur = at_ns - open.row.ts;
  open.open = false;
  return out_->append(open.row);
}

Status StackRows::lookEnds(int64_t ts) {
  // A thread that was not seen this time has ended, or could not be read.
  for (Open& o : open_)
    if (o.open && o.last_ns < looked_ns_) TS_TRY(end(o, looked_ns_));
  looked_ns_ = ts;
  if (ts - flushed_ns_ < kLongestRowNs) return {};
  flushed_ns_ = ts;
  return out_->flush();
}

Status StackRows::begin(const std::string& node) {
  const int64_t now = rawClock(), to_unix = unixMinusRaw();
  SessionRow session;
  session.name = session.source = writer_.string("sample");
  session.ts_start = now + to_unix;
  TS_TRY(out_->append(session));
  ClockRow clock;
  clock.node = writer_.string(node);
  clock.ts_from = now;
  clock.offset_ns = to_unix;
  clock.drift_ppm = real(0);
  clock.method = writer_.string("system clock");
  clock.reference = writer_.string("unix");
  TS_TRY(out_->append(clock));
  NodeRow row;
  row.node = row.hostname = clock.node;
  TS_TRY(out_->append(row));
  return out_->flush();
}

Status StackRows::lost(size_t process, const char* cause, uint64_t count, const std::string& detail) {
  if (count == 0) return {};
  const StackCounts::Process& p = counts_.processes[process];
  LossRow loss;
  loss.node = writer_.string(p.node);
  loss.rank = orNull(p.rank);
  loss.pid = p.pid;
  loss.cause = writer_.string(cause);
  loss.count = static_cast<int64_t>(count);
  loss.detail = out_->text(detail);
  return out_->append(loss);
}

Status StackRows::describeProcesses() {
  for (const StackCounts::Process& p : counts_.processes) {
    ProcessRow row;
    row.node = writer_.string(p.node);
    row.pid = p.pid;
    row.rank = orNull(p.rank);
    const std::string program = p.command.substr(0, p.command.find(' '));
    row.name = writer_.string(program.substr(program.rfind('/') + 1));
    row.command = out_->text(p.command);
    TS_TRY(out_->append(row));
  }
  for (const StackCounts::Thread& t : counts_.threads) {
    if (!t.tid) continue;
    const StackCounts::Process& p = counts_.processes[t.process];
    ThreadRow row;
    row.node = writer_.string(p.node);
    row.rank = orNull(p.rank);
    row.pid = p.pid;
    row.tid = *t.tid;
    row.name = writer_.string(t.name);
    TS_TRY(out_->append(row));
  }
  return {};
}

Status StackRows::finish(const Sampling& sampling, bool describe) {
  for (Open& o : open_)
    if (o.open) TS_TRY(end(o, std::max(looked_ns_, o.last_ns)));
  for (const auto& [key, value] :
       {std::pair(kStacksRate, sampling.options().rate), std::pair(kStacksSeconds, counts_.seconds)}) {
    MetadataRow row;
    row.key = writer_.string(key);
    row.value = out_->text(std::to_string(value));
    TS_TRY(out_->append(row));
  }
  for (size_t i = 0; i < counts_.processes.size(); ++i) {
    const StackCounts::Process& p = counts_.processes[i];
    const SampledProcess& told = sampling.processes()[i];
    TS_TRY(lost(i, "missed samples", p.missed, "looks at the process that came too late, or found nothing to read"));
    TS_TRY(lost(i, "missed threads", told.threads_missed, "threads that changed too fast to be read, or did not stop"));
    if (!told.problem.empty()) TS_TRY(lost(i, "not sampled", 1, told.problem));
  }
  if (describe) TS_TRY(describeProcesses());
  return out_->flush();
}

}  // namespace tracesmith::process
