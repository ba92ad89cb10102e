// Steps and collectives as spans, read back from what is stored: ingestion knows nothing of it. Where the receiver
// cannot take more, the segments wait; where each was read up to is kept on disk.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/master/segment_marks.hpp"
#include "cluster/master/store.hpp"
#include "sink/exports.hpp"

namespace tracesmith::cluster {

/// Runs in a thread of its own from start() to destruction.
class SpanFeed {
 public:
  /// What is stored already is not sent, unless an earlier run had begun. Both must outlive it.
  static Result<std::unique_ptr<SpanFeed>> start(const Store& store, sink::Exports& exports,
                                                 const sink::Options& options);
  ~SpanFeed();

 private:
  SpanFeed(const Store& store, sink::Exports& exports) : store_(store), exports_(exports) {}
  void loop();
  void look();
  /// Rows between two offsets of a segment.
  Status send(const SegmentInfo& segment, uint64_t from, uint64_t to);

  const Store& store_;
  sink::Exports& exports_;
  bool collectives_ = true;
  double interval_s_ = 0;
  SegmentMarks marks_;
  std::mutex mutex_;  // guards stop_
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
