// Which step a process is in and how fast it trains, from the records of its ring.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/ring/folders.hpp"
#include "capture/ring/reader.hpp"
#include "model/rate.hpp"

namespace tracesmith::capture {

/// Of one process. Not thread safe.
class TrainingNow {
 public:
  /// Whether a record says something about it. Asked about every record.
  bool wanted(const ring::RingReader& ring, const ring::Record& record);
  /// One that is wanted.
  void take(const ring::RingReader& ring, const ring::Record& record);

  struct Step {
    int64_t number = 0, age_ns = 0;
  };
  std::optional<Step> step(uint64_t now_ns) const;
  /// A rate that has not come for some steps is no longer told.
  model::Rates rates(uint64_t now_ns) const;

 private:
  struct Value {
    double value = 0;
    uint64_t at_ns = 0, before_ns = 0;
  };
  size_t rateOf(const ring::RingReader& ring, uint32_t name);

  std::unordered_map<uint32_t, size_t> names_;  // of counters: which rate
  Value values_[std::size(model::kRates)];
  int64_t step_ = -1;
  uint64_t step_start_ = 0;  // of the one that runs; 0: none does
};

/// A process under the probe.
struct ProcessNow {
  int64_t pid = 0;
  int32_t rank = -1;  ///< of the job; -1: not known
  std::string role, command;
  bool simulated = false;
  bool recording = true;  ///< false: its recording is paused
  uint32_t mode = 0;      ///< RingHeader::mode
  std::string ring;       ///< its file
  std::optional<TrainingNow::Step> step;
  model::Rates rates;
};

/// All processes of this machine that are under the probe and live, as far as this user may read their rings. Disturbs
/// nobody. Not thread safe.
class ProcessesNow {
 public:
  ProcessesNow();
  /// Of rings in this folder, besides those of other users.
  explicit ProcessesNow(const std::string& folder);
  std::vector<ProcessNow> read();

 private:
  struct Followed {
    std::unique_ptr<ring::RingReader> ring;
    ring::Cursors cursors;
    TrainingNow training;
  };
  ring::RingFolders folders_;
  std::map<std::string, Followed> rings_;  // by path
};

}  // namespace tracesmith::capture
