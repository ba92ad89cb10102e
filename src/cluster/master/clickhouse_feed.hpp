// What is stored, into ClickHouse: blocks are read back from the segments, in threads of their own, one for each
// server.
//
// Exactly once: every row says which segment, block and row of the block it is (sink/clickhouse.hpp). How far a segment
// was inserted is kept on disk. Where that is not sure (after a start, after an error) the server is asked which rows
// of the segment it has, once no insertion of ours is at work there any more; only the others are inserted.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cluster/master/segment_marks.hpp"
#include "cluster/master/store.hpp"
#include "sink/clickhouse.hpp"

namespace tracesmith::cluster {

/// Thread safe. Runs from start() to destruction.
class ClickHouseFeed {
 public:
  /// `options.clickhouse`: one server or several with commas in between; each node's rows go to one of them. The store
  /// must outlive it.
  static Result<std::unique_ptr<ClickHouseFeed>> start(const Store& store, const sink::Options& options);
  ~ClickHouseFeed();

  /// Whether all of a segment is there: until then retention has to wait.
  bool has(const SegmentInfo& segment) const;
  std::vector<model::ExportStatus> status() const;

 private:
  struct Shard {
    size_t index = 0;
    std::unique_ptr<sink::ClickHouse> server;
    model::ExportStatus status;  // guarded by mutex_
    bool prepared = false;
    std::thread thread;
  };
  struct Batch;
  explicit ClickHouseFeed(const Store& store) : store_(store) {}
  void loop(Shard& shard);
  Status look(Shard& shard);
  Status prepare(Shard& shard);
  Status deliver(Shard& shard, const SegmentInfo& segment, uint64_t from, uint64_t to, Batch& batch);
  Status flush(Shard& shard, Batch& batch);
  size_t shardOf(const std::string& node) const;
  bool stopped() const;

  const Store& store_;
  std::vector<std::unique_ptr<Shard>> shards_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  SegmentMarks marks_;
  std::set<std::string> sure_;  // paths of segments whose mark is right
  bool stop_ = false;
};

}  // namespace tracesmith::cluster
