// The frames of a session, from whoever has its trace.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/file.hpp"
#include "cluster/api.hpp"
#include "trace/export/frames.hpp"

namespace tracesmith::cluster {

/// Writes NAME.json, whole or absent. `progress` gets the bytes of the trace so far, and false from it ends this; of
/// the trace nothing is left. Of these nodes alone; empty: of all.
inline Status fetchFrames(SessionTraces& traces, const std::string& id, const std::string& path,
                          const std::function<bool(uint64_t)>& progress, const std::vector<std::string>& nodes = {}) {
  Result<OutputFile> trace = OutputFile::create(path + ".sbt");  // never committed: it goes, however this ends
  if (!trace) return trace.status();
  uint64_t bytes = 0;
  auto write = [&](std::string_view data) -> Status {
    TS_TRY(trace->write(data));
    return progress(bytes += data.size()) ? Status() : Status::io("cancelled");
  };
  TS_TRY(traces.fetchTo(write, id, nodes));
  return trace::writeFrames(trace->workPath(), path);
}

}  // namespace tracesmith::cluster
