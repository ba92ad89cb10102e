#include "cluster/master/clickhouse_feed.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include <xxhash.h>

namespace tracesmith::cluster {

using namespace trace;
using sink::RowOrigin;

namespace {

constexpr auto kPeriod = std::chrono::seconds(2);  // ClickHouse wants few large insertions
constexpr auto kFirstPause = std::chrono::milliseconds(500), kLongestPause = std::chrono::milliseconds(30'000);
constexpr uint64_t kMostRows = 500'000, kMostBytes = 64u << 20;  // of a table, of all tables in a batch
constexpr int64_t kDayNs = 86'400'000'000'000;

/// Rows of a segment that a server has: by table and offset of their block.
using Present = std::map<std::pair<const TableInfo*, uint64_t>, uint64_t>;

Status findPresent(sink::ClickHouse& server, const RowOrigin& origin, const std::set<const TableInfo*>& tables,
                   uint64_t from, Present& present) {
  Result<bool> busy = server.inserting();
  if (!busy) return busy.status();
  if (*busy) return Status::busy(server.address() + " still inserts what was sent before");
  for (const TableInfo* table : tables) {
    Result<std::string> rows =
        server.ask(std::string("SELECT _offset, count() FROM tracesmith.") + table->name + "_rows WHERE " +
                   sink::originCondition(origin) + " AND _offset >= " + std::to_string(from) + " GROUP BY _offset");
    if (!rows) return rows.status();
    std::istringstream lines(*rows);
    for (uint64_t offset, count; lines >> offset >> count;) present[{table, offset}] = count;
  }
  return {};
}

}  // namespace

/// Rows of each table that are inserted together, of any segments.
struct ClickHouseFeed::Batch {
  struct Rows {
    std::string bytes;
    uint64_t count = 0;
  };
  struct End {
    SegmentInfo segment;
    uint64_t bytes = 0;  ///< of it, that are there when all is inserted
    bool whole = false;  ///< as far as it was to be read
  };
  std::map<const TableInfo*, Rows> tables;
  std::map<std::string, End> ends;  // by path
  bool full() const {
    uint64_t bytes = 0, most = 0;
    for (const auto& [table, rows] : tables) {
      bytes += rows.bytes.size();
      most = std::max(most, rows.count);
    }
    return bytes >= kMostBytes || most >= kMostRows;
  }
};

Result<std::unique_ptr<ClickHouseFeed>> ClickHouseFeed::start(const Store& store, const sink::Options& options) {
  std::unique_ptr<ClickHouseFeed> feed(new ClickHouseFeed(store));
  bool found = false;
  TS_TRY(feed->marks_.open(options.folder + "/clickhouse", found));
  for (const std::string& url : sink::splitUrls(options.clickhouse)) {
    Result<std::unique_ptr<sink::ClickHouse>> server = sink::ClickHouse::open(url, options);
    if (!server) return server.status();
    auto shard = std::make_unique<Shard>();
    shard->index = feed->shards_.size();
    shard->server = std::move(*server);
    shard->status.sink = "clickhouse";
    shard->status.address = shard->server->address();
    feed->shards_.push_back(std::move(shard));
  }
  if (feed->shards_.empty()) return Status::invalid("--clickhouse: no address");
  for (auto& shard : feed->shards_) shard->thread = std::thread([f = feed.get(), s = shard.get()] { f->loop(*s); });
  return feed;
}

ClickHouseFeed::~ClickHouseFeed() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (auto& shard : shards_) {
    shard->server->cancel();
    if (shard->thread.joinable()) shard->thread.join();
  }
}

bool ClickHouseFeed::stopped() const {
  std::lock_guard lock(mutex_);
  return stop_;
}

size_t ClickHouseFeed::shardOf(const std::string& node) const {
  return XXH3_64bits(node.data(), node.size()) % shards_.size();
}

void ClickHouseFeed::loop(Shard& shard) {
  auto pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Status status = shard.prepared ? Status() : prepare(shard);
    if (status) status = look(shard);
    lock.lock();
    shard.status.problem = status.message();
    if (status) {
      pause = kFirstPause;
      changed_.wait_for(lock, kPeriod, [&] { return stop_; });
    } else {
      ++shard.status.retries;
      changed_.wait_for(lock, pause, [&] { return stop_; });
      pause = std::min<decltype(pause)>(2 * pause, kLongestPause);
    }
  }
}

Status ClickHouseFeed::prepare(Shard& shard) {
  std::vector<std::string> natives;
  for (const auto& other : shards_) natives.push_back(other->server->native());
  TS_TRY(shard.server->prepare(natives));
  shard.prepared = true;
  return {};
}

Status ClickHouseFeed::look(Shard& shard) {
  Status status;
  Batch batch;
  for (const std::string& node : store_.nodes()) {
    if (shardOf(node) != shard.index) continue;
    for (const SegmentInfo& s : store_.segments(node)) {
      uint64_t from = 0;
      {
        std::lock_guard lock(mutex_);
        marks_.keep(s);
        from = marks_.of(s);
        if (stop_) return {};
      }
      const uint64_t to = std::min(s.durable, s.size);
      if (from >= to) continue;
      if (status) status = deliver(shard, s, from, to, batch);
    }
    std::lock_guard lock(mutex_);
    marks_.tidy(node);
  }
  if (status) status = flush(shard, batch);
  uint64_t waiting = 0;
  for (const std::string& node : store_.nodes())
    for (const SegmentInfo& s : store_.segments(node)) {
      std::lock_guard lock(mutex_);
      if (shardOf(node) == shard.index) waiting += s.durable - std::min(s.durable, marks_.of(s));
    }
  std::lock_guard lock(mutex_);
  shard.status.waiting_bytes = waiting;
  return status;
}

Status ClickHouseFeed::deliver(Shard& shard, const SegmentInfo& segment, uint64_t from, uint64_t to, Batch& batch) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(segment.path);
  if (!reader) return reader.status();
  const RowOrigin origin{segment.node, segment.epoch, segment.number,
                         static_cast<uint16_t>((*reader)->createdNs() / kDayNs)};
  std::vector<const Block*> blocks;
  std::set<const TableInfo*> tables;
  for (const Block& block : (*reader)->blocks()) {
    if (block.offset < from || block.offset >= to || block.stream == kSummaryStream) continue;
    blocks.push_back(&block);
    tables.insert(block.table);
  }
  bool sure = false;
  {
    std::lock_guard lock(mutex_);
    sure = sure_.erase(segment.path) > 0;  // until all of it is inserted
  }
  Present present;
  if (!sure) TS_TRY(findPresent(*shard.server, origin, tables, from, present));
  std::map<const TableInfo*, std::unique_ptr<BlockRows>> readers;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = *blocks[i];
    const auto there = present.find({block.table, block.offset});
    const uint64_t first = there == present.end() ? 0 : there->second;
    if (first < block.rows) {
      auto& rows = readers[block.table];
      if (!rows) rows = std::make_unique<BlockRows>(**reader, *block.table, Selection{}, std::vector<int>{});
      if (rows->load(block)) {
        Batch::Rows& to_insert = batch.tables[block.table];
        sink::appendRows(to_insert.bytes, origin, *rows, static_cast<uint32_t>(first));
        to_insert.count += block.rows - first;
      } else {
        TS_TRY(rows->status());
        std::lock_guard lock(mutex_);
        shard.status.dropped += block.rows;  // damaged
      }
    }
    const bool last = i + 1 == blocks.size();
    batch.ends[segment.path] = {segment, last ? to : blocks[i + 1]->offset, last};
    if (batch.full()) TS_TRY(flush(shard, batch));
    if (stopped()) return Status::busy("it ends");
  }
  if (blocks.empty()) batch.ends[segment.path] = {segment, to, true};
  return {};
}

Status ClickHouseFeed::flush(Shard& shard, Batch& batch) {
  for (auto& [table, rows] : batch.tables) {
    if (rows.count == 0) continue;
    TS_TRY(shard.server->insert(*table, rows.bytes));
    std::lock_guard lock(mutex_);
    shard.status.sent += rows.count;
    rows = {};
  }
  std::lock_guard lock(mutex_);
  for (const auto& [path, end] : batch.ends) {
    marks_.set(end.segment, end.bytes);
    if (end.whole) sure_.insert(path);
  }
  batch.ends.clear();
  (void)marks_.save();  // a full disk: the rows are found there after a start
  return {};
}

bool ClickHouseFeed::has(const SegmentInfo& segment) const {
  std::lock_guard lock(mutex_);
  return marks_.of(segment) >= segment.size;
}

std::vector<model::ExportStatus> ClickHouseFeed::status() const {
  std::vector<model::ExportStatus> all;
  std::lock_guard lock(mutex_);
  for (const auto& shard : shards_) all.push_back(shard->status);
  return all;
}

}  // namespace tracesmith::cluster
