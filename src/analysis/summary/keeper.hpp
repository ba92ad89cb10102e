// A recording of which only the summary is kept, while it is made: rows are written as ever, and every half minute the
// steps that are complete become a summary. Until then they are in memory alone: who is killed loses them.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "analysis/summary/summarize.hpp"

namespace tracesmith::analysis {

class SummaryKeeper {
 public:
  /// `path`: the trace to write.
  static Result<std::unique_ptr<SummaryKeeper>> create(const std::string& path,
                                                       const trace::WriterOptions& options = {});
  ~SummaryKeeper();

  /// Takes the rows of the recording, from any thread.
  trace::Writer& writer() { return *whole_; }
  /// Whether enough has come for keep(). `now_ns`: raw clock.
  bool due(int64_t now_ns) const;
  /// Turns what is complete into a summary. Appenders must have been flushed, but for telemetry; not from several
  /// threads.
  Status keep(int64_t now_ns);
  /// All that there is, and closes the trace. Appenders must be flushed or gone.
  Status close();
  const SummaryStats& stats() const { return stats_; }

 private:
  SummaryKeeper();
  Status take(std::string_view bytes);
  Result<std::unique_ptr<trace::Reader>> takePiece();
  Status summarizePiece(int64_t until);

  std::unique_ptr<trace::Writer> whole_, out_;
  mutable std::mutex mutex_;    // guards the next two, which telemetry writes too
  std::string common_, piece_;  // header, schema and strings, for every piece; blocks of this one
  int64_t begun_ns_ = 0;        // the piece
  size_t pieces_ = 0;
  SummaryState state_;
  SummaryStats stats_;
};

}  // namespace tracesmith::analysis
