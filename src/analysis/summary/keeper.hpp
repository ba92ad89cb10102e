// A recording of which only the summary is kept, while it is made: rows are written as ever, and every half minute the
// steps that are complete become a summary. Until then they are in memory alone. Who is killed loses them, unless he
// saves them elsewhere.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "analysis/summary/summarize.hpp"

namespace tracesmith::analysis {

class SummaryKeeper {
 public:
  /// `path`: the trace to write.
  static Result<std::unique_ptr<SummaryKeeper>> create(const std::string& path,
                                                       const trace::WriterOptions& options = {});
  /// Into a trace of somebody else, who closes it.
  static Result<std::unique_ptr<SummaryKeeper>> create(trace::Writer& out);
  ~SummaryKeeper();

  /// Takes the rows of the recording, from any thread.
  trace::Writer& writer() { return *whole_; }
  /// Whether enough has come for keep(). `now_ns`: raw clock.
  bool due(int64_t now_ns) const;
  /// Turns what is complete into a summary. Appenders must have been flushed, but for telemetry; not from several
  /// threads.
  Status keep(int64_t now_ns);
  /// keepAll(), and closes the trace. Appenders must be flushed or gone.
  Status close();
  /// All that there is. Only what does not belong to a step may come after it.
  Status keepAll();
  /// keep() and keepAll() for those who have no time: a thread of its own makes the summary, rows go on coming, and
  /// when it is done() finish() must be called.
  Status start(int64_t now_ns);
  Status startAll() { return startUntil(INT64_MAX); }
  bool started() const { return work_.valid(); }
  bool done() const { return work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  Status finish();
  const SummaryStats& stats() const { return stats_; }
  /// Raw clock: everything before is in the summary. INT64_MAX: all that had come.
  int64_t coveredUntil() const { return state_.until; }

  /// What came and is in no summary yet, as the bytes of a trace: those that are new since the last call, or, with
  /// `anew`, all of them.
  std::string takeUnsaved(bool& anew);
  std::string state() const;
  /// Goes on where another one stopped that had this state, and had handed over these bytes.
  Status restore(std::string_view saved, const std::string& state);
  /// From now on blocks of rows also go to `sink` as they are: all those that are in no summary yet as well, or only
  /// the names they use. Without a sink: no more.
  Status passOn(trace::TraceSink sink, bool all);

 private:
  SummaryKeeper();
  static Result<std::unique_ptr<SummaryKeeper>> create(std::unique_ptr<trace::Writer> own, trace::Writer* out);
  Status take(std::string_view bytes);
  Status startUntil(int64_t until);

  std::unique_ptr<trace::Writer> whole_, own_;
  trace::Writer* out_ = nullptr;
  mutable std::mutex mutex_;    // guards what follows up to the empty line, which telemetry writes too
  std::string common_, piece_;  // header, schema and strings, for every piece; blocks of this one
  size_t saved_common_ = 0, saved_piece_ = 0;
  trace::TraceSink pass_on_;
  std::thread::id worker_;  // what it writes came before
  std::string later_;       // what it writes

  int64_t begun_ns_ = 0;  // the piece
  size_t pieces_ = 0;
  SummaryState state_, next_;  // next_: when work_ is done
  size_t taken_ = 0;           // of the piece, by work_
  SummaryStats stats_;
  std::future<Result<SummaryStats>> work_;  // last: its thread uses what is above
};

}  // namespace tracesmith::analysis
