#include "cli/flight.hpp"

#include "capture/collect/collector.hpp"
#include "cli/ring_folder.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cli {

Result<bool> writeFlight(int64_t pid, const std::string& path) {
  Result<std::string> base = ring::ringFolder();
  if (!base) return base.status();
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path, {});
  if (!writer) return writer.status();
  capture::Collector collector(**writer, capture::hostName());
  for (const std::string& ring : ringsBelow(*base)) {
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(ring);
    if (reader && (*reader)->alive() && (pid == 0 || (*reader)->shownPid() == pid))
      (void)collector.follow(ring, false);  // it may have ended meanwhile
  }
  if (collector.stats().processes == 0) return false;
  if (Result<size_t> taken = collector.snapshot(); !taken) return taken.status();
  TS_TRY(collector.finish());
  TS_TRY((*writer)->close());
  return true;
}

}  // namespace tracesmith::cli
