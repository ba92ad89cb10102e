// Where the rows of a recording go: into the trace, or (--keep summary) through what keeps only a summary of them.
#pragma once

#include <memory>
#include <string>

#include "analysis/summary/keeper.hpp"
#include "capture/collect/collector.hpp"
#include "cli/options.hpp"

namespace tracesmith::cli {

class Recording {
 public:
  /// `keep`: empty, or "summary".
  static Result<Recording> create(const std::string& path, const std::string& keep,
                                  const trace::WriterOptions& options = {});
  trace::Writer& writer() { return summary_ ? summary_->writer() : *whole_; }
  /// After the collector has taken what there is.
  Status keepUp(capture::Collector& collector);
  Status close() { return summary_ ? summary_->close() : whole_->close(); }

  static void addKeep(Command& command, std::string& keep);

 private:
  std::unique_ptr<trace::Writer> whole_;
  std::unique_ptr<analysis::SummaryKeeper> summary_;
};

}  // namespace tracesmith::cli
