// The table `clocks`: puts times of a node on the clock that all nodes of a trace have in common.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/clock_model.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {

/// Models of one node, each in force from its at_ns to the next one's.
class ClockTable {
 public:
  void add(const ClockModel& model);
  bool empty() const { return models_.empty(); }
  const std::vector<ClockModel>& models() const { return models_; }  ///< by at_ns
  /// Whether this clock was refined from collectives.
  bool refined() const { return !models_.empty() && models_.front().method == "collectives"; }

  /// Drops models of unknown error if others are known: those are then used for the earlier times too.
  void dropUnbounded();

  /// Of two models that agree the later one counts: it knows what the earlier one knew, and what came after. An agent
  /// that has just connected does not know its drift well.
  void preferLater();

  /// Without a model the clock is taken as it is.
  int64_t toReference(int64_t raw) const;
  int64_t toRaw(int64_t reference) const;
  /// From raw times to the reference times anything between them may have: models differ a little where they meet.
  void widen(int64_t& low, int64_t& high) const;
  /// Bound of the error at that time, ns; INT64_MAX if unknown.
  int64_t boundAt(int64_t raw) const;
  /// The largest of any time; INT64_MAX if one is not known.
  int64_t worstBound() const;
  /// The model that counts at that time; nullptr if there is none.
  const ClockModel* inForce(int64_t raw) const;

 private:
  std::vector<ClockModel> models_;  // by at_ns
};

/// The model in force, kept from row to row: ClockTable::toReference() without the search. Must not outlive the table.
class RowClock {
 public:
  RowClock() = default;  ///< the clock as it is
  explicit RowClock(const ClockTable& table) : models_(table.models()) {}
  int64_t toReference(int64_t raw) {
    if (models_.empty()) return raw;
    if (raw < low_ || raw >= high_) seek(raw);
    return model_->toReference(raw);
  }

 private:
  void seek(int64_t raw);
  std::span<const ClockModel> models_;
  const ClockModel* model_ = nullptr;
  int64_t low_ = 0, high_ = 0;  // it is in force from low_ to high_
};

/// The clocks of a trace, by node, or by rank where its node is not known.
using Clocks = std::map<std::string, ClockTable>;

/// Where collectives refined a clock, that counts.
Result<Clocks> readClocks(const Reader& reader);
/// An empty one where nothing is known of it.
const ClockTable& clockOf(const Clocks& clocks, const std::string& node);
/// The largest bound of all; INT64_MAX if one is not known.
int64_t worstBound(const Clocks& clocks);

/// The reference clock of a trace of several nodes. Must not outlive the reader.
class TraceClock final : public CommonClock {
 public:
  /// nullptr: the trace has the clocks of fewer than two nodes, its times are on one clock as they are.
  static Result<std::unique_ptr<TraceClock>> load(const Reader& reader);

  int64_t toReference(const Block& block, int64_t node, int64_t raw) const override;
  void widen(const Block& block, int64_t& low, int64_t& high) const override;

 private:
  const ClockTable* find(uint32_t stream, int64_t node) const;
  Status lookInto(const Reader& reader, const Block& block);

  Clocks tables_;
  std::map<uint32_t, std::vector<const ClockTable*>> of_stream_;     // by string id
  std::map<uint64_t, std::pair<int64_t, int64_t>> of_mixed_blocks_;  // times of those with several nodes, by offset
};

}  // namespace tracesmith::trace
