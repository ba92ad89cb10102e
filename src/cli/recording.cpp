#include "cli/recording.hpp"

#include "base/clock.hpp"

namespace tracesmith::cli {

Result<Recording> Recording::create(const std::string& path, const std::string& keep,
                                    const trace::WriterOptions& options) {
  Recording out;
  if (keep.empty()) {
    Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path, options);
    if (!writer) return writer.status();
    out.whole_ = std::move(*writer);
  } else {
    Result<std::unique_ptr<analysis::SummaryKeeper>> keeper = analysis::SummaryKeeper::create(path, options);
    if (!keeper) return keeper.status();
    out.summary_ = std::move(*keeper);
  }
  return out;
}

Status Recording::keepUp(capture::Collector& collector) {
  const auto now = static_cast<int64_t>(rawClock());
  if (!summary_ || !summary_->due(now)) return {};
  TS_TRY(collector.flush());
  return summary_->keep(now);
}

void Recording::addKeep(Command& command, std::string& keep) {
  command
      .option(
          "--keep", keep,
          "Keep less, for recordings of weeks. summary: for each rank and step, where the time went and one row for "
          "each event name. Only collectives, and events that took much longer than usual, are kept one by one")
      .type("WHAT")
      .check(oneOf({"summary"}));
}

}  // namespace tracesmith::cli
