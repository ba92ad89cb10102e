// What `tracesmith info` says about a trace.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/verdict/memory.hpp"
#include "capture/collect/watched.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {

/// Everything here comes from block headers and small tables, unless `full`.
struct Summary {
  struct Column {
    std::string name;
    uint64_t values = 0, bytes = 0;  ///< not NULL; compressed
  };
  struct Table {
    const trace::TableInfo* info;
    uint64_t rows = 0, bytes = 0, blocks = 0;
    std::vector<Column> columns;
  };
  struct Device {
    std::string node, name;
    int64_t device;
  };
  struct Collective {
    std::string op, comm;
    uint64_t count = 0, bytes = 0;
  };
  struct Clock {
    std::string node, method, reference;
    int64_t offset_ns = trace::kNull, bound_ns = trace::kNull;
    std::optional<double> drift_ppm;
    uint64_t rows = 0;  ///< the numbers are those of the last one
  };
  struct Loss {
    std::string cause, detail;
    uint64_t count = 0, rows = 0;
  };

  /// What watching the hardware has cost, from the recorder's own account.
  struct Collector {
    std::string node, name;
    double cpu_s = 0, wall_s = 0, elapsed_s = 0;
    uint64_t readings = 0, samples = 0;
  };

  bool ends_in_flight = false;  ///< operations had not ended when the recording did
  std::vector<Table> tables;    ///< those that have rows
  uint64_t other_bytes = 0;     ///< strings, schema, file header, damage
  std::optional<int64_t> start_ns, end_ns;
  /// As `analyze` says it; absent if it would take long and no steps are marked.
  struct Job {
    double job_us, startup_us, step_us;  ///< NaN: not known
    std::string steps_by;                ///< marks, …; none: there are no steps
    std::optional<uint64_t> steps;       ///< absent: it would take long
  };
  std::optional<Job> job;
  std::optional<int64_t> recorded_ns;  ///< Unix time of the recording
  uint64_t host_rows = 0, device_rows = 0;
  std::optional<std::vector<uint64_t>> by_type;  ///< events by type; absent if it would take long
  std::vector<int64_t> ranks;                    ///< ascending; kNull, first: rows without a rank
  std::vector<std::string> nodes;
  std::vector<Device> devices;
  std::optional<int64_t> first_step, last_step;
  std::optional<std::vector<Collective>> collectives;  ///< largest first; absent if it would take long
  std::vector<Clock> clocks;
  std::vector<Loss> losses;
  bool simulated = false;
  std::vector<Collector> collectors;
  std::optional<capture::Watched> watched;           ///< of all ranks recorded in watch mode
  std::vector<analysis::OutOfMemory> out_of_memory;  ///< by rank
  std::vector<std::string> sources;                  ///< what wrote the recordings: run, import, synth, …
  bool verified = false;
};

/// `full`: counts that need decoding too, however large the trace is.
Result<Summary> summarize(const trace::Reader& reader, bool full);

/// Reads the account of hardware collectors: the last one of each node, dearest first.
Status addCollectors(const trace::Reader& reader, Summary& s);
/// Reads the account of watch mode: the last one of each rank.
Status addWatched(const trace::Reader& reader, Summary& s);
/// "0-3,7,12-15" for ascending numbers.
std::string numberRanges(const std::vector<int64_t>& numbers);
/// "2025-11-15 08:30:00 UTC".
std::string utcTime(int64_t unix_ns);

/// "8 ranks (0-7), 2 nodes, 8 GPUs NVIDIA H200".
std::string jobText(const Summary& s);
void printSummary(const trace::Reader& reader, const Summary& s, bool columns);
void printSummaryJson(const trace::Reader& reader, const Summary& s);
void printSchema();
void printSchemaJson();

}  // namespace tracesmith::cli
