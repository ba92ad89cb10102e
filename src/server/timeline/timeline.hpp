// A trace opened for its timeline. Its index is made in the background, or read from a file of before.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/timeline/index.hpp"

namespace tracesmith::server {

struct TileQuery {
  int64_t from = 0, to = 0;  ///< after the origin
  int64_t width = 0;         ///< buckets
  std::vector<uint32_t> tracks;
};

/// Thread safe once ready.
class Timeline {
 public:
  /// `index_file`: where the index is kept; empty: nowhere.
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, const std::string& index_file);
  ~Timeline();

  /// Whether the index is there; until then nothing below may be called. `progress`: 0 to 1.
  Result<bool> ready(double& progress) const;
  /// For programs that have nothing better to do.
  Status waitUntilReady();

  const trace::Reader& reader() const { return *reader_; }
  const analysis::Names& names() const { return names_; }
  const analysis::ClockModels& clocks() const { return clocks_; }
  const TimelineIndex& index() const { return *index_; }
  uint64_t events() const;

  /// Answers as JSON: docs/http-api.md.
  std::string describe(const std::string& id, const std::string& title) const;
  std::string tiles(const TileQuery& query);
  std::string stats(const TileQuery& query);
  std::string search(const std::string& text, size_t limit);
  Result<std::string> event(const std::string& row_id);

 private:
  using Rows = std::shared_ptr<const TimelineRows>;  // shared by the cache and those who read them
  struct Decoding {
    RowDecoder decoder;
    TrackNumbers numbers;
  };
  Timeline() = default;
  void makeIndex();
  /// Rows of some blocks, by number of their summary; empty where a block is damaged.
  std::vector<Rows> rows(const std::vector<uint32_t>& summaries);
  Rows decode(uint32_t summary);
  bool isCached(uint32_t summary);
  std::string rowId(uint32_t summary, size_t row) const;
  uint64_t eventsIn(const TrackIndex& track, int64_t from, int64_t to) const;

  struct Slice {
    int64_t ts, dur;
    uint32_t name, summary, row;
    uint8_t type;
  };
  std::vector<std::vector<Slice>> slices(const TileQuery& query, const std::vector<bool>& wanted);
  std::vector<uint32_t> blocksOf(const TileQuery& query, const std::vector<bool>& wanted) const;

  std::unique_ptr<trace::Reader> reader_;
  analysis::Names names_;
  analysis::ClockModels clocks_;
  std::string index_file_;
  std::unique_ptr<TimelineIndex> index_;

  std::atomic<int> progress_{0};
  std::atomic<bool> ready_{false}, failed_{false}, stop_{false};
  Status failure_;  // set before failed_
  std::thread builder_;

  std::mutex mutex_;                             // guards what follows
  std::list<std::pair<uint32_t, Rows>> recent_;  // newest first
  std::unordered_map<uint32_t, std::list<std::pair<uint32_t, Rows>>::iterator> where_;
  size_t cached_bytes_ = 0;
  std::vector<std::unique_ptr<Decoding>> idle_;
};

}  // namespace tracesmith::server
