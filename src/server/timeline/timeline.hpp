// A trace opened for its timeline. Its index is made in the background, or read from a file of before.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "analysis/rows/intervals.hpp"
#include "model/travel.hpp"
#include "server/timeline/index_builder.hpp"

namespace tracesmith {
class JsonWriter;
}

namespace tracesmith::server {

/// Threads an answer may use.
size_t cores();

struct TileQuery {
  int64_t from = 0, to = 0;  ///< after the origin
  int64_t width = 0;         ///< buckets
  std::vector<uint32_t> tracks;
};

/// Rows whose name contains a text.
struct SearchQuery {
  std::string text;
  size_t limit = 200;
  std::optional<int64_t> from{};   ///< the first hits that begin then or later, after the origin
  std::optional<int64_t> to{};     ///< instead the last ones that begin earlier
  std::vector<uint32_t> tracks{};  ///< empty: all
  std::optional<uint8_t> type{};   ///< rows of this type only
  int64_t least_ns = 0;            ///< no shorter ones
};

/// Thread safe once ready.
class Timeline {
 public:
  /// `index_file`: where the index is kept; empty: nowhere.
  static Result<std::unique_ptr<Timeline>> open(const std::string& path, const std::string& index_file);
  /// Of a file that grows. `before`: when it was shorter, and ready, or nullptr; only what is new is read then. It can
  /// be continued once, and answers as before.
  static Result<std::unique_ptr<Timeline>> openGrowing(const std::string& path, Timeline* before);
  ~Timeline();

  /// Whether the index is there; until then nothing below may be called. `progress`: 0 to 1.
  Result<bool> ready(double& progress) const;
  /// For programs that have nothing better to do.
  Status waitUntilReady();

  const trace::Reader& reader() const { return *reader_; }
  const trace::NameNumbers& names() const { return names_; }
  const trace::Clocks& clocks() const { return clocks_; }
  const TimelineIndex& index() const { return *index_; }
  uint64_t events() const;

  /// Answers as JSON: docs/http-api.md.
  std::string describe(const std::string& id, const std::string& title) const;
  std::string tiles(const TileQuery& query);
  std::string stats(const TileQuery& query);
  /// Fails if there are too many events.
  Result<std::string> flame(const TileQuery& query);
  std::string search(const SearchQuery& query);
  Result<std::string> event(const std::string& row_id);

 private:
  using Rows = std::shared_ptr<const TimelineRows>;  // shared by the cache and those who read them
  struct Decoding {
    RowDecoder decoder;
    TrackNumbers numbers;
  };
  Timeline() = default;
  static Result<std::unique_ptr<Timeline>> start(const std::string& path, const std::string& index_file,
                                                 const trace::NameNumbers* names_before,
                                                 std::unique_ptr<IndexBuilder> index_builder);
  void makeIndex();
  Result<std::unique_ptr<TimelineIndex>> buildIndex();
  /// Rows of some blocks, by number of their summary; empty where a block is damaged.
  std::vector<Rows> rows(const std::vector<uint32_t>& summaries);
  Rows decode(uint32_t summary);
  bool isCached(uint32_t summary);
  std::string rowId(uint32_t summary, size_t row) const;
  std::vector<model::TimelineLoss> losses() const;
  // gaps.cpp
  /// When the work of GPUs was not recorded, after the origin; by process, in order. A summary has no such work at all.
  const std::map<int64_t, std::vector<analysis::Interval>>& gaps() const;
  std::vector<model::TimelineGap> gapsOf(const std::vector<model::Track>& tracks) const;
  /// How long a stream was recorded in [from, to).
  int64_t recorded(const TrackIndex& track, int64_t from, int64_t to) const;
  uint64_t eventsIn(const TrackIndex& track, int64_t from, int64_t to) const;

  // event.cpp, event_collective.cpp
  struct Place {
    uint32_t summary, row;
  };
  struct Arrival {
    int64_t ts, dur;
    uint32_t track;
  };
  /// How many rows lie around it on its track.
  uint64_t depthOf(const Place& place);
  bool sameProcess(uint32_t track, uint32_t other) const;
  std::function<bool(const Place&, const TimelineRows&)> inProcess(uint32_t track) const;
  std::vector<uint32_t> blocksOfProcess(uint32_t track) const;
  /// Drawn rows of a table, in some blocks, in which a column of integers has this value.
  std::vector<Place> find(std::vector<uint32_t> summaries, const trace::TableInfo& table, int column, int64_t value);
  struct Sought {
    const trace::TableInfo& table;
    int column;
    int64_t value;
    std::function<bool(const Place&, const TimelineRows&)> accept;
    size_t enough;
  };
  /// The same, of those accepted: in blocks near the time of a row; farther away only if there are not enough.
  std::vector<Place> findNear(const std::vector<uint32_t>& summaries, const TimelineRows& around, size_t row,
                              const Sought& sought);
  Status writeColumns(JsonWriter& w, const trace::Block& block, size_t row, int64_t& correlation) const;
  std::vector<model::SearchHit> flowOf(const Place& place, const TimelineRows& drawn, int64_t correlation);
  model::CollectiveDetail collectiveOf(const Place& part);
  std::vector<Arrival> arrivals(const Place& part, uint32_t comm, int64_t seq, int64_t ranks);

  struct Slice {
    int64_t ts, dur;
    uint32_t name, summary, row;
    uint8_t type;
  };
  class NameList;
  std::vector<model::TileSlice> drawnSlices(const std::vector<Slice>& list, int64_t least_ns, NameList& names) const;
  std::vector<std::vector<Slice>> slices(const TileQuery& query, const std::vector<bool>& wanted);
  std::vector<uint32_t> blocksOf(const TileQuery& query, const std::vector<bool>& wanted) const;

  std::unique_ptr<trace::Reader> reader_;
  trace::NameNumbers names_;
  trace::Clocks clocks_;
  std::string index_file_;
  std::unique_ptr<TimelineIndex> index_;
  std::unique_ptr<IndexBuilder> index_builder_;  // of a file that grows
  std::once_flag in_flight_made_;
  mutable std::once_flag gaps_made_;
  mutable std::map<int64_t, std::vector<analysis::Interval>> gaps_;
  std::shared_ptr<const InFlight> in_flight_;  // shared by the decoders

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
