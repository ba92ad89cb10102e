// The ring of a process that trains: what the probe and the hooks would leave there, from this process.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "capture/ring/writer.hpp"
#include "model/ring/program_records.hpp"

namespace tracesmith::test {

class TrainingRing {
 public:
  explicit TrainingRing(const std::string& path, int32_t rank = 0, const char* role = nullptr)
      : ring_(
            ring::RingWriter::create(path.c_str(), {.lane0_records = 64, .lane_records = 1024, .lanes = 2}, memory_)) {
    ring_->header().rank = rank;
    if (role) ring_->header().role = ring_->intern(role);
    ring_->header().state = ring::State::alive;
    lane_ = ring_->addLane(1);
  }
  ~TrainingRing() { ring_->unmap(); }

  void step(int64_t number) {
    ring_->writeLane(lane_, encode(ring::StepRecord{.step = number, .start = static_cast<uint64_t>(rawClock())}));
  }
  void counter(const char* name, double value) {
    ring_->writeLane(lane_,
                     encode(ring::CounterRecord{
                         .name = ring_->intern(name), .start = static_cast<uint64_t>(rawClock()), .value = value}));
  }
  template <typename Record>
  void write(const Record& record) {
    ring_->writeLane(lane_, encode(record));
  }
  ring::RingWriter& writer() { return *ring_; }

 private:
  alignas(ring::RingWriter) char memory_[sizeof(ring::RingWriter)];
  ring::RingWriter* ring_;
  uint32_t lane_ = 0;
};

}  // namespace tracesmith::test
