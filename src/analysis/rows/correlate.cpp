#include "analysis/rows/correlate.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <thread>
#include <vector>

#include "base/parallel.hpp"
#include "trace/layout.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

struct Launch {
  int64_t ts = kNull, dur = kNull;
};

uint64_t mix(int64_t process, int64_t id) {
  uint64_t hash =
      (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull) ^ (static_cast<uint64_t>(process) * 0xC2B2AE3D27D4EB4Full);
  return hash ^ hash >> 32;
}

/// Launches of one group of processes by process and id: an array where one process has dense ids, else a hash table.
class LaunchTable {
 public:
  static bool fitsArray(int64_t low, int64_t high, size_t memory_bytes) {
    return low <= high && static_cast<uint64_t>(high) - static_cast<uint64_t>(low) < memory_bytes / sizeof(Launch);
  }
  void useArray(int64_t low, int64_t high) {
    dense_ = true;
    low_ = low;
    array_.assign(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1, {});
  }
  void useHash(size_t launches) {
    dense_ = false;
    used_ = 0;
    entries_.assign(std::bit_ceil(std::max<size_t>(16, launches * 2)), {});
  }

  void put(int64_t process, int64_t id, Launch launch) {
    if (dense_) {
      const uint64_t at = static_cast<uint64_t>(id) - static_cast<uint64_t>(low_);
      if (at < array_.size()) array_[at] = launch;
      return;
    }
    Entry& e = entry(process, id);
    used_ += !e.used;
    e = {process, id, launch, true};
    if (used_ * 4 > entries_.size() * 3) grow();
  }
  const Launch* find(int64_t process, int64_t id) {
    if (dense_) {
      const uint64_t at = static_cast<uint64_t>(id) - static_cast<uint64_t>(low_);
      return at < array_.size() && array_[at].ts != kNull ? &array_[at] : nullptr;
    }
    Entry& e = entry(process, id);
    return e.used ? &e.launch : nullptr;
  }

 private:
  struct Entry {
    int64_t process = 0, id = 0;
    Launch launch;
    bool used = false;
  };
  Entry& entry(int64_t process, int64_t id) {
    const size_t mask = entries_.size() - 1;
    for (size_t at = mix(process, id) & mask;; at = (at + 1) & mask)
      if (!entries_[at].used || (entries_[at].process == process && entries_[at].id == id)) return entries_[at];
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& e : old)
      if (e.used) entry(e.process, e.id) = e;
  }

  bool dense_ = false;
  int64_t low_ = 0;
  std::vector<Launch> array_;
  std::vector<Entry> entries_;
  size_t used_ = 0;
};

/// Blocks whose processes overlap: no other block has a partner of theirs.
struct Group {
  std::vector<const Block*> launches, work;
  bool single = false;  // of one process
  size_t launch_rows = 0;
};

bool hasType(const Block& block, uint64_t types) {
  uint64_t there = block.types();
  if (there >> kEventTypes) there |= 1ull << (kEventTypes - 1);
  return (there & types) != 0;
}

/// Processes a block may hold, as an interval: ranks, or pids below zero where there are no ranks.
struct Span {
  int64_t low, high;
};

int64_t pidProcess(int64_t pid) { return -1 - pid; }

Span processesOf(const Block& block) {
  Span span{INT64_MAX, INT64_MIN};
  int64_t low, high;
  const ColumnEntry* rank = block.find(events::rank);
  if (block.zone(events::rank, low, high)) span = {low, high};
  if (!rank || rank->values < block.rows) {
    if (!block.zone(events::pid, low, high)) low = high = 0;
    span.low = std::min(span.low, pidProcess(high));
    span.high = std::max(span.high, pidProcess(low));
  }
  return span;
}

std::vector<Group> makeGroups(const Reader& reader, const CorrelateOptions& options) {
  struct Item {
    const Block* block;
    Span span;
  };
  std::vector<Item> items;
  for (const Block* block : reader.blocks(tableOf<EventRow>()))
    if (block->find(events::correlation) && hasType(*block, options.launch_types | options.work_types))
      items.push_back({block, processesOf(*block)});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.span.low < b.span.low; });
  std::vector<Group> groups;
  int64_t low = 0, high = INT64_MIN;
  for (const Item& item : items) {
    if (groups.empty() || item.span.low > high) {
      groups.emplace_back();
      low = item.span.low;
      high = item.span.high;
    }
    high = std::max(high, item.span.high);
    Group& group = groups.back();
    group.single = low == high;
    if (hasType(*item.block, options.launch_types)) {
      group.launches.push_back(item.block);
      group.launch_rows += item.block->find(events::correlation)->values;
    }
    if (hasType(*item.block, options.work_types)) group.work.push_back(item.block);
  }
  std::erase_if(groups, [](const Group& g) { return g.launches.empty() || g.work.empty(); });
  return groups;
}

/// The state of one thread.
class Worker {
 public:
  Worker(const Reader& reader, const CorrelateOptions& options, const PairVisitor& visit, size_t memory, size_t number)
      : options_(options), visit_(visit), memory_(memory), number_(number), decoder_(reader) {}

  void run(const Group& group) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (const Block* block : group.launches) {
      int64_t a, b;
      if (!block->zone(events::correlation, a, b)) continue;
      low = std::min(low, a);
      high = std::max(high, b);
    }
    if (group.single && LaunchTable::fitsArray(low, high, memory_)) {
      table_.useArray(low, high);
      runPass(group, 0, 1);
      return;
    }
    // Too many launches for the memory: several passes over the group, each with its share of the ids.
    constexpr size_t kBytesPerLaunch = 120;  // an entry of the hash table at its emptiest
    const size_t passes = std::max<size_t>(1, group.launch_rows * kBytesPerLaunch / memory_);
    for (size_t pass = 0; pass < passes; ++pass) {
      table_.useHash(group.launch_rows / passes);
      runPass(group, pass, passes);
    }
  }

 private:
  void runPass(const Group& group, size_t pass, size_t passes) {
    auto mine = [&](int64_t id) { return passes == 1 || (mix(1, id) >> 20) % passes == pass; };
    for (const Block* block : group.launches) {
      if (!load(*block, options_.launch_types, false)) continue;
      const int64_t* ids = correlation_.data<int64_t>();
      for (uint32_t r : rows_)
        if (mine(ids[r]))
          table_.put(process(r), ids[r], {ts_.data<int64_t>()[r], dur_.valid(r) ? dur_.data<int64_t>()[r] : kNull});
    }
    for (const Block* block : group.work) {
      if (!load(*block, options_.work_types, true)) continue;
      const int64_t* ids = correlation_.data<int64_t>();
      pairs_.clear();
      for (uint32_t r : rows_) {
        if (!mine(ids[r])) continue;
        const Launch* launch = table_.find(process(r), ids[r]);
        if (!launch) continue;
        pairs_.push_back({launch->ts, launch->dur, ts_.data<int64_t>()[r],
                          dur_.valid(r) ? dur_.data<int64_t>()[r] : kNull,
                          rank_.valid(r) ? rank_.data<int32_t>()[rank_one_ ? 0 : r] : kNull, name_.data<uint32_t>()[r],
                          static_cast<EventType>(std::min<uint8_t>(type_.data<uint8_t>()[r], kEventTypes - 1))});
      }
      if (!pairs_.empty()) visit_(*block, pairs_, number_);
    }
  }

  int64_t process(uint32_t r) const {
    if (rank_.valid(r)) return rank_.data<int32_t>()[rank_one_ ? 0 : r];
    return pidProcess(pid_.valid(r) ? pid_.data<int64_t>()[r] : 0);
  }

  /// Decodes a block and finds the rows of these types that have a start and an id.
  bool load(const Block& block, uint64_t types, bool work) {
    const ColumnEntry* rank = block.find(events::rank);
    rank_one_ = rank && rank->encoding == Encoding::kConstant && rank->values == block.rows;
    const bool need_pid = !rank || rank->values < block.rows;
    if (!decoder_.decode(block, events::correlation, correlation_) || !decoder_.decode(block, events::type, type_) ||
        !decoder_.decode(block, events::ts, ts_) || !decoder_.decode(block, events::dur, dur_) ||
        !decoder_.decode(block, events::rank, rank_, rank_one_) ||
        (need_pid && !decoder_.decode(block, events::pid, pid_)) ||
        (work && !decoder_.decode(block, events::name, name_)))
      return false;
    uint8_t wanted[256];
    for (unsigned t = 0; t < 256; ++t) wanted[t] = types >> std::min<unsigned>(t, kEventTypes - 1) & 1;
    const uint8_t* type = type_.data<uint8_t>();
    rows_.resize(block.rows);
    size_t n = 0;
    if (!correlation_.hasNulls() && !ts_.hasNulls() && !type_.hasNulls()) {
      for (uint32_t r = 0; r < block.rows; ++r) {
        rows_[n] = r;
        n += wanted[type[r]];
      }
    } else {
      for (uint32_t r = 0; r < block.rows; ++r) {
        rows_[n] = r;
        n += wanted[type[r]] & static_cast<uint8_t>(correlation_.valid(r) && ts_.valid(r) && type_.valid(r));
      }
    }
    rows_.resize(n);
    return true;
  }

  const CorrelateOptions& options_;
  const PairVisitor& visit_;
  const size_t memory_, number_;
  BlockDecoder decoder_;
  ColumnData correlation_, type_, ts_, dur_, rank_, pid_, name_;
  bool rank_one_ = false;
  std::vector<uint32_t> rows_;
  std::vector<LaunchPair> pairs_;
  LaunchTable table_;
};

}  // namespace

size_t correlateThreads(const CorrelateOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
}

Status correlate(const Reader& reader, const CorrelateOptions& options, const PairVisitor& visit) {
  const std::vector<Group> groups = makeGroups(reader, options);
  const size_t threads = correlateThreads(options);
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t w = 0; w < threads; ++w)
    workers.push_back(std::make_unique<Worker>(reader, options, visit, options.memory_bytes / threads, w));
  parallelFor(groups.size(), threads, [&](size_t g, size_t worker) { workers[worker]->run(groups[g]); });
  return {};
}

}  // namespace tracesmith::analysis
