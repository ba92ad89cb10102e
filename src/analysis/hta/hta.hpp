// HTA's single-rank figures of one process after another; formulas in docs/analysis.md.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "analysis/rows/coverage.hpp"
#include "analysis/rows/launches.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "analysis/rows/trace_steps.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/analysis/results.hpp"

namespace tracesmith::analysis {

enum class HtaType : uint8_t { computation, communication, memory, other };
const char* htaTypeName(HtaType type);
/// HTA's classification of a kernel by its name.
HtaType htaType(std::string_view name);

/// HTA's µs: as Python's floats give them, rounded inwards. They are exact to a quarter of a µs only where a file's
/// times count from 1970, which HTA's sums show; where the file has a base, its times count from there.
class HtaClock {
 public:
  explicit HtaClock(int64_t base_ns = 0) : base_us_(base_ns / 1000) {}
  /// By the base that the trace was imported with, if there is one.
  static Result<HtaClock> of(const trace::Reader& reader, const trace::NameNumbers& names);
  int64_t start(int64_t ts_ns) const;
  int64_t end(int64_t ts_ns, int64_t end_ns) const;

 private:
  double sinceBase(int64_t ts_ns) const;
  int64_t base_us_;
};

/// A device event in HTA's time.
struct HtaRow {
  int64_t ts, end;
  const HostCall* launch;  ///< nullptr: none
  uint32_t name;
  int32_t stream;
  HtaType type;
  trace::EventType event;
};

class HtaAnalysis {
 public:
  /// `coverage`: time in which the GPU was not recorded is neither idle nor part of the span. None: it always was.
  HtaAnalysis(const trace::NameNumbers& names, const TraceSteps& steps, HtaClock clock,
              const Coverage* coverage = nullptr);

  /// Adds a process; any thread.
  void add(const RankRows& rows, const Launches& launches);
  /// After the last process.
  Hta finish();

 private:
  struct Communication {
    int64_t rank, stream, iteration, ts, dur;
    uint32_t name;
  };
  struct Part {
    Hta hta;
    std::vector<Communication> communication;
    int64_t first = INT64_MAX, last = INT64_MIN;
  };
  std::vector<HtaRow> rowsOf(const RankRows& rows, const Launches& launches) const;
  void temporal(const RankRows& rows, const std::vector<HtaRow>& kept, Hta& out) const;
  void kernels(int64_t rank, const std::vector<HtaRow>& kept, Hta& out) const;
  void streams(const RankRows& rows, const std::vector<HtaRow>& kept, Hta& out) const;
  void launches(int64_t rank, const std::vector<HtaRow>& kept, Hta& out) const;
  void communication(const RankRows& rows, const std::vector<HtaRow>& kept, Part& part) const;
  std::vector<HtaStraggler> stragglers() const;
  int64_t missing(int64_t process, int64_t from_us, int64_t to_us) const;

  const trace::NameNumbers& names_;
  const TraceSteps& steps_;
  const HtaClock clock_;
  const Coverage* const coverage_;
  std::vector<HtaType> types_;      // by name
  std::vector<uint8_t> launchers_;  // by name: bit 0 counts in queues, bit 1 in launch statistics
  std::mutex mutex_;                // guards parts_
  std::map<int64_t, Part> parts_;   // by process
};

}  // namespace tracesmith::analysis
