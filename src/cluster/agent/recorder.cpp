#include "cluster/agent/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "model/travel_lines.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr int64_t kMs = 1'000'000, kS = 1'000'000'000;
constexpr int kIdleTickMs = 250;
constexpr int64_t kRingsNs = 100 * kMs;    // how often new processes are looked for
constexpr int64_t kCheckpointNs = 1 * kS;  // rows wait at most this long
constexpr double kHeldMost = 0.25;         // of a lane: then it does not wait
constexpr int64_t kGraceNs = 400 * kMs;    // probes hand over GPU records every 100 ms
constexpr int64_t kMarginNs = 10 * kMs;    // recorded before and after a capture: the clock is known better later
constexpr int64_t kSegmentNs = 3600 * kS;
constexpr int64_t kClockNs = 10 * kS;     // a row of `clocks` at least this often
constexpr int64_t kForgottenNs = 5 * kS;  // how often rings of ended processes are looked for
constexpr int64_t kRetryNs = 1 * kS;      // after a disk that was full

/// A capture that was ended and goes on has another end.
std::string keyOf(const CaptureSpan& c) { return c.id + "/" + std::to_string(c.end_ns); }

}  // namespace

Recorder::Recorder(RecorderOptions options, Spool& spool, const ClockKeeper& clock, std::unique_ptr<NodeSource> source,
                   AskedStacks* asked)
    : options_(std::move(options)),
      spool_(spool),
      clock_(clock),
      source_(std::move(source)),
      asked_(asked),
      folders_(options_.ring_folder, options_.ring_roots) {
  loadCaptures();
  state_ = spool_.recovered().state;
  summary_state_ = spool_.recovered().summary;
  thread_ = std::thread([this] { loop(); });
}

Recorder::~Recorder() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Recorder::setCaptures(std::vector<CaptureSpan> captures) {
  std::lock_guard lock(mutex_);
  if (captures_ == captures) return;
  captures_ = std::move(captures);
  saveCaptures();
  woken_ = true;
  changed_.notify_all();
}

void Recorder::setLocalCapture(const CaptureSpan& capture) {
  std::lock_guard lock(mutex_);
  local_ = capture;
  woken_ = true;
  changed_.notify_all();
}

bool Recorder::done(const CaptureSpan& capture) const {
  std::lock_guard lock(mutex_);
  return done_.contains(keyOf(capture));
}

/// Of the master and our own. Under mutex_.
std::vector<CaptureSpan> Recorder::allCaptures() const {
  std::vector<CaptureSpan> all = captures_;
  if (!local_.id.empty()) all.push_back(local_);
  return all;
}

RecorderStats Recorder::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Recorder::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    if (Status s = tick(); !s) fail(s);
    lock.lock();
    const int pause = collector_ ? pause_ms_ : kIdleTickMs;
    changed_.wait_for(lock, std::chrono::milliseconds(pause), [&] { return stop_ || woken_; });
    woken_ = false;
  }
  lock.unlock();
  if (!collector_) return;
  if (Result<size_t> n = collector_->take(); n) (void)checkpoint();
  collector_->leaveAttached();  // rings keep what comes until the next run
}

/// When a capture begins and has ended here, raw clock. While nobody knows how the master's clock relates to ours, what
/// it asked for may be any time: everything is taken, nothing has ended, and the edges are cut where the trace is made.
int64_t Recorder::begins(const CaptureSpan& c, const sync::ClockModel& clock) const {
  return clock.valid() || c.id == local_.id ? clock.toRaw(c.start_ns) - kMarginNs : 0;
}

int64_t Recorder::ends(const CaptureSpan& c, const sync::ClockModel& clock) const {
  if (c.end_ns == 0 || (!clock.valid() && c.id != local_.id)) return INT64_MAX;
  return clock.toRaw(c.end_ns) + kMarginNs + kGraceNs;
}

/// What is to be recorded now.
Recorder::Wanted Recorder::wanted(int64_t raw_ns) {
  std::lock_guard lock(mutex_);
  const sync::ClockModel clock = clock_.now().model;
  Wanted w;
  for (const CaptureSpan& c : allCaptures()) {
    if (done_.contains(keyOf(c))) continue;
    const bool summary = c.keep == model::Keep::summary;
    (summary ? w.summary : w.whole) = true;
    w.since_raw = std::min(w.since_raw, begins(c, clock));
    const bool over = ends(c, clock) <= raw_ns;
    w.ended += over;
    if (over) w.end_raw = std::max(w.end_raw, clock.toRaw(c.end_ns) - 1);
    w.last &= over;
    if (summary) w.last_summary &= over;
  }
  stats_.captures = static_cast<uint32_t>(allCaptures().size());
  return w;
}

Status Recorder::tick() {
  const int64_t now = rawClock();
  if (now < retry_raw_) return {};
  want_ = wanted(now);
  if (!want_.whole && !want_.summary) {
    if (collector_) return end();
    if (now - forgotten_raw_ >= kForgottenNs) {
      forgotten_raw_ = now;
      folders_.removeForgotten(now, options_.keep_dead_ns);
    }
    return {};
  }
  if (!collector_)
    TS_TRY(beginSegment());
  else if (want_.summary != (summary_ != nullptr) || (summary_ && summary_->finished()))
    TS_TRY(nextSegment());
  if (summary_) TS_TRY(summary_->alsoWhole(want_.whole));
  collector_->leaveOutBefore(static_cast<uint64_t>(std::max<int64_t>(want_.since_raw, 0)));
  if (now - rings_raw_ >= kRingsNs) {
    followRings();
    rings_raw_ = now;
  }
  Result<size_t> taken = collector_->take();
  if (!taken) return taken.status();
  taken_raw_ = now;
  dirty_ |= *taken > 0;
  for (std::string& ring : collector_->dropEnded()) {
    ended_rings_.push_back(std::move(ring));
    dirty_ = true;
  }
  uint32_t freq_ms = options_.freq_ms;
  {
    std::lock_guard lock(mutex_);
    for (const CaptureSpan& c : allCaptures())
      if (c.freq_ms > 0) freq_ms = std::min(freq_ms, c.freq_ms);
    stats_.processes = static_cast<uint32_t>(collector_->alive());
    stats_.records = records_ + collector_->stats().records;
    stats_.losses = losses_ + collector_->stats().losses;
    stats_.problem.clear();
  }
  if (source_) {
    source_->watch(freq_ms);
    Result<size_t> sampled = source_->take(spool_.writer(), *out_);
    if (!sampled) return sampled.status();
    dirty_ |= *sampled > 0;
  }
  if (asked_) {
    Result<size_t> rows = asked_->take(spool_.writer(), *out_, node_id_, want_.since_raw);
    if (!rows) return rows.status();
    dirty_ |= *rows > 0;
  }
  // A lane that fills faster than we look at it is looked at twice as often the next time, in the end without a pause.
  const bool filling = collector_->held() > kHeldMost;
  pause_ms_ = filling ? pause_ms_ / 2 : std::min(options_.tick_ms, std::max(1, 2 * pause_ms_));
  const bool waited = now - checkpoint_raw_ >= kCheckpointNs;
  // A summary takes a moment; one that goes on covers the end of a capture only when the steps of then have ended.
  const bool ending = want_.ended > 0 && (!summary_ || waited || (want_.last_summary && !summary_->working()));
  if (ending && want_.ended > settled_) {
    collector_->settle();
    // Of a job that hangs these are what matters. What ended before now has to say so within its time.
    if (want_.last) collector_->giveUpInFlight(want_.end_raw);
  }
  settled_ = ending ? want_.ended : std::min(settled_, want_.ended);
  if (ending || (dirty_ && (waited || filling))) TS_TRY(checkpoint());
  if (ending) {
    std::lock_guard lock(mutex_);
    const sync::ClockModel clock = clock_.now().model;
    for (const CaptureSpan& c : allCaptures())
      if (ends(c, clock) <= covered_raw_ + kGraceNs) done_.insert(keyOf(c));
  }
  if (spool_.writer().bytesWritten() > options_.segment_bytes || now - segment_raw_ > kSegmentNs) return nextSegment();
  return {};
}

Status Recorder::nextSegment() {
  TS_TRY(checkpoint());
  collector_->leaveAttached();  // the next one goes on where this one stopped
  drop();
  TS_TRY(spool_.closeSegment());
  return beginSegment();
}

/// A segment says by itself where it comes from, and has a checkpoint before anything else happens.
Status Recorder::beginSegment() {
  TS_TRY(spool_.beginSegment());
  Writer& writer = spool_.writer();
  if (want_.summary) {
    Result<std::unique_ptr<AgentSummary>> summary = AgentSummary::begin(spool_, summary_state_);
    if (!summary) return summary.status();
    summary_ = std::move(*summary);
  } else {
    AgentSummary::forget(spool_);
  }
  collector_ = std::make_unique<capture::Collector>(summary_ ? summary_->writer() : writer, options_.node);
  collector_->leaveOutNodes();
  collector_->restore(state_);
  collector_->leaveOutBefore(static_cast<uint64_t>(std::max<int64_t>(want_.since_raw, 0)));
  out_ = writer.appender();
  node_id_ = writer.string(options_.node);
  if (source_) source_->newSegment();
  clockRow(true);
  segment_raw_ = rawClock();
  return checkpoint(false);
}

void Recorder::clockRow(bool always) {
  const sync::ClockModel m = clock_.now().model;
  const int64_t predicted = written_clock_.toReference(m.at_ns) - m.at_ns;
  const int64_t moved = std::abs(m.offset_ns - predicted);
  const bool better = m.bound_ns < written_clock_.bound_ns / 2;
  // While nobody answers, the rate of our clock is less and less sure: the bound written before holds no longer.
  const bool worse = m.valid() && written_clock_.valid() &&
                     m.bound_ns - written_clock_.bound_ns > std::max<int64_t>(1000, written_clock_.bound_ns / 2);
  if (!always && !better && !worse && m.at_ns - written_clock_.at_ns < kClockNs &&
      moved < std::max<int64_t>(1000, m.bound_ns / 8))
    return;
  ClockRow row;
  row.node = node_id_;
  row.ts_from = m.at_ns;
  row.offset_ns = m.offset_ns;
  row.drift_ppm = real(m.drift_ppm);
  if (m.valid()) row.bound_ns = m.bound_ns;
  row.method = spool_.writer().string(m.method);
  row.reference = spool_.writer().string(m.method == "exchange" ? "master" : "unix");
  if (out_->append(row)) written_clock_ = m;
}

Status Recorder::checkpoint(bool sum_up) {
  clockRow(false);
  TS_TRY(collector_->describe());
  TS_TRY(collector_->flush());
  TS_TRY(out_->flush());
  Checkpoint c;
  c.raw_ns = taken_raw_ - kGraceNs;
  if (summary_) {
    if (sum_up) TS_TRY(summary_->keep(c.raw_ns, want_.ended > 0, want_.last_summary));
    Result<std::string> saved = summary_->save();
    if (!saved) return saved.status();
    c.summary = std::move(*saved);
    c.raw_ns = std::max<int64_t>(std::min(c.raw_ns, summary_->coveredUntil()), 0);
  }
  c.covered_ns = taken_raw_ == 0 || c.raw_ns == 0 ? 0 : clock_.toReference(c.raw_ns);
  c.state = collector_->state();
  TS_TRY(spool_.checkpoint(c));
  collector_->release();
  if (summary_) summary_->saved();
  covered_raw_ = c.raw_ns;
  state_ = std::move(c.state);
  summary_state_ = std::move(c.summary);
  checkpoint_raw_ = rawClock();
  dirty_ = false;
  // Their records are in the spool now; nobody else would remove them.
  for (const std::string& ring : ended_rings_) folders_.remove(ring);
  ended_rings_.clear();
  return {};
}

void Recorder::drop() {
  out_.reset();
  records_ += collector_->stats().records;
  losses_ += collector_->stats().losses;
  collector_.reset();
  summary_.reset();
}

Status Recorder::end() {
  TS_TRY(checkpoint());
  if (source_) source_->watch(0);
  drop();  // rings are flight recorders again
  state_.clear();
  summary_state_.clear();
  TS_TRY(spool_.checkpoint({}));  // the next run starts anew
  TS_TRY(spool_.closeSegment());
  std::lock_guard lock(mutex_);
  stats_.processes = 0;
  return {};
}

/// The disk is full, or worse: back to the last checkpoint, and again in a while. Rings count what they drop meanwhile.
void Recorder::fail(const Status& status) {
  if (collector_) {
    collector_->leaveAttached();
    drop();
  }
  summary_.reset();
  ended_rings_.clear();  // no checkpoint has their records: they are read again
  spool_.abandonSegment();
  retry_raw_ = rawClock() + kRetryNs;
  std::lock_guard lock(mutex_);
  stats_.problem = status.message();
}

void Recorder::followRings() {
  for (const std::string& path : folders_.rings()) {
    if (collector_->follows(path)) continue;
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader) continue;  // not ready yet: tried again
    const int64_t other = (*reader)->attachedReader();
    if (other != 0 && other != ::getpid()) continue;  // `tracesmith run` takes its records
    const ring::RingHeader& h = (*reader)->header();
    if (h.simulated && options_.node != std::string_view(h.host, ::strnlen(h.host, sizeof h.host)))
      continue;  // it plays another node
    (void)collector_->follow(path, true);
    dirty_ = true;
  }
}

void Recorder::saveCaptures() const {
  Result<OutputFile> out = OutputFile::create(options_.captures_file);
  if (!out) return;
  std::string text;
  for (const CaptureSpan& c : captures_) text += model::toLine(c) + "\n";
  if (out->write(text)) (void)out->commit();
}

void Recorder::loadCaptures() {
  std::ifstream in(options_.captures_file);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) model::fromLine(line, captures_.emplace_back());
}

}  // namespace tracesmith::cluster
