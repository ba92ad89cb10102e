// Reads traces of other tools into one SBT trace: Kineto and Chrome JSON, plain or gzip, and SBT v0.1.
// Memory does not grow with the inputs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/import/losses.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {

struct ChromeEvent;

/// A kernel of a Kineto trace, as it is imported.
struct ImportedKernel {
  const ChromeEvent& event;
  std::string_view name;
  const EventRow& row;
  const LaunchShape& shape;
  int64_t rank;  ///< kNull: not known (yet)
  Writer& writer;
};
/// Its row of `collectives`; nothing: it is not communication.
using CollectiveOfKernel = std::function<std::optional<CollectiveRow>(const ImportedKernel&)>;

struct ImportOptions {
  std::vector<std::string> paths;  ///< files, or folders of them
  int64_t rank = kNull;            ///< wins over what the input says; for one input only
  std::string node;                ///< wins over what the inputs say
  std::string command;             ///< for the `sessions` row
  /// Which kernels communicate is declared in src/model, above this folder: model::collectiveOfKernel. Without it
  /// nothing is written into `collectives`.
  CollectiveOfKernel collective_of;
  std::string spill_path;  ///< what does not fit into memory goes to a file beside this one; "": the temporary folder
  size_t window_bytes = 2u << 20;    ///< JSON looked at in one piece
  size_t waiting_bytes = 24u << 20;  ///< encoded blocks that wait in memory for the end of their input
  bool threads = true;               ///< inflate and encode in threads of their own
};

struct ImportReport {
  uint64_t files = 0;
  uint64_t events = 0;  ///< rows of `events`
  uint64_t collectives = 0;
  uint64_t steps = 0;
  std::set<int64_t> ranks;
  uint64_t input_bytes = 0;  ///< of the files
  uint64_t json_bytes = 0;   ///< uncompressed
  Losses losses;
  std::vector<std::string> warnings;
};

/// Files an import of these paths reads, folders expanded in the order of names.
Result<std::vector<std::string>> importInputs(const std::vector<std::string>& paths);

/// Writes all inputs into `writer`, which the caller closes. `progress` gets bytes done and in all, from the calling
/// thread.
Result<ImportReport> importTraces(const ImportOptions& options, Writer& writer,
                                  const std::function<void(uint64_t done, uint64_t total)>& progress = {});

}  // namespace tracesmith::trace
