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

/// A kernel, or an operator or range of a host, as it is imported.
struct ImportedEvent {
  const ChromeEvent& event;
  std::string_view name;
  const EventRow& row;
  const LaunchShape& shape;
  bool on_device;
  int64_t rank;  ///< kNull: not known (yet)
  int64_t seq;   ///< number of the operation in its group, by the event itself or the call that caused it; or kNull
  Writer& writer;
};
/// Its row of `collectives`; nothing: it is not communication.
using CollectiveOfEvent = std::function<std::optional<CollectiveRow>(const ImportedEvent&)>;
/// The name of an operation as ours, of what a source calls it: "nccl:_all_gather_base".
using OperationOfName = std::function<std::string(std::string_view name)>;
/// What events of a category are, where a rule of the user says so.
using TypeOfCategory = std::function<std::optional<EventType>(std::string_view category)>;

struct ImportOptions {
  std::vector<std::string> paths;  ///< files, or folders of them
  int64_t rank = kNull;            ///< wins over what the input says; for one input only
  std::string node;                ///< wins over what the inputs say
  std::string command;             ///< for the `sessions` row
  /// Which events communicate is declared in src/model, above this folder: model::collectiveOfEvent. Without it
  /// nothing is written into `collectives`.
  CollectiveOfEvent collective_of;
  OperationOfName operation_of;  ///< declared there, too; without it names stay as they are
  TypeOfCategory type_of;        ///< may be missing
  std::string spill_path;  ///< what does not fit into memory goes to a file beside this one; "": the temporary folder
  size_t window_bytes = 2u << 20;    ///< JSON looked at in one piece
  size_t waiting_bytes = 24u << 20;  ///< encoded blocks that wait in memory for the end of their input
  bool threads = true;               ///< inflate and encode in threads of their own
};

struct ImportReport {
  uint64_t files = 0;
  uint64_t events = 0;  ///< rows of `events`
  uint64_t collectives = 0;
  std::set<int64_t> steps;  ///< numbers: a step of many ranks counts once
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
