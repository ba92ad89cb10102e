#include "analysis/rows/rank_rows.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "analysis/rows/sort_runs.hpp"
#include "base/parallel.hpp"
#include "trace/layout.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr size_t kMostThreads = 1024;  // that launch something; a process with more is not a training job

/// Blocks whose processes no other task has, and which of their processes to take.
struct Task {
  std::vector<const Block*> blocks;
  int64_t low = INT64_MIN, high = INT64_MAX;
};

struct Span {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t a, int64_t b) {
    low = std::min(low, a);
    high = std::max(high, b);
  }
};

/// Processes a block may hold: ranks, and pids below zero where rows have no rank.
Span processesOf(const Block& block) {
  Span span;
  int64_t a, b;
  const ColumnEntry* rank = block.find(events::rank);
  if (rank && block.zone(events::rank, a, b)) span.add(a, b);
  if (!rank || rank->values < block.rows) {
    if (block.zone(events::pid, a, b)) span.add(-1 - b, -1 - a);
    const ColumnEntry* pid = block.find(events::pid);
    if (!pid || pid->values < block.rows) span.add(-1, -1);
  }
  return span;
}

std::vector<Task> makeTasks(const Reader& reader, size_t max_rows) {
  struct Item {
    Span span;
    const Block* block;
  };
  std::vector<Item> items;
  for (const Block* block : reader.blocks(tableOf<EventRow>())) items.push_back({processesOf(*block), block});
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.span.low < b.span.low; });
  std::vector<Task> tasks;
  for (size_t i = 0; i < items.size();) {
    // A run of blocks whose processes overlap.
    Span span = items[i].span;
    size_t end = i, rows = 0;
    for (; end < items.size() && items[end].span.low <= span.high; ++end) {
      span.high = std::max(span.high, items[end].span.high);
      rows += items[end].block->rows;
    }
    // Too many rows for the memory: several passes over the run, each with its share of the processes.
    const auto width = static_cast<uint64_t>(span.high) - static_cast<uint64_t>(span.low) + 1;
    const uint64_t passes = std::clamp<uint64_t>(rows / std::max<size_t>(1, max_rows) + 1, 1, width);
    for (uint64_t p = 0; p < passes; ++p) {
      Task task;
      task.low = span.low + static_cast<int64_t>(width / passes * p);
      task.high = p + 1 == passes ? span.high : span.low + static_cast<int64_t>(width / passes * (p + 1)) - 1;
      for (size_t k = i; k < end; ++k)
        if (items[k].span.low <= task.high && items[k].span.high >= task.low) task.blocks.push_back(items[k].block);
      tasks.push_back(std::move(task));
    }
    i = end;
  }
  return tasks;
}

class Loader {
 public:
  Loader(const Reader& reader, const trace::NameNumbers& names, const RankRowsOptions& options)
      : names_(names), options_(options), decoder_(reader) {}

  std::map<int64_t, RankRows> load(const Task& task) {
    std::map<int64_t, RankRows> ranks;
    for (const Block* block : task.blocks) loadBlock(*block, task, ranks);
    for (auto& [process, rows] : ranks) {
      rows.process = process;
      auto byStart = [](const auto& a, const auto& b) { return a.ts < b.ts; };
      sortRuns(rows.device, byStart);
      sortRuns(rows.calls, byStart);
      sortRuns(rows.ranges, byStart);
      sortRuns(rows.work, byStart);
    }
    return ranks;
  }

  /// The next rank gets the memory of one that is done: fresh pages cost as much as filling them.
  void recycle(RankRows& rows) {
    rows.device.clear();
    rows.calls.clear();
    rows.ranges.clear();
    rows.work.clear();
    spare_.device.swap(rows.device);
    spare_.calls.swap(rows.calls);
    spare_.ranges.swap(rows.ranges);
    spare_.work.swap(rows.work);
    rows = {};
  }

 private:
  void loadBlock(const Block& block, const Task& task, std::map<int64_t, RankRows>& ranks) {
    if (!decoder_.decode(block, events::ts, ts_) || !decoder_.decode(block, events::dur, dur_) ||
        !decoder_.decode(block, events::type, type_) || !decoder_.decode(block, events::name, name_) ||
        !decoder_.decode(block, events::correlation, correlation_) || !decoder_.decode(block, events::rank, rank_) ||
        !decoder_.decode(block, events::stream, stream_) || !decoder_.decode(block, events::launch, launch_) ||
        !decoder_.decode(block, events::tid, tid_))
      return;
    const bool need_pid = rank_.hasNulls() || rank_.allNull();
    if (need_pid && !decoder_.decode(block, events::pid, pid_)) return;
    const std::vector<uint32_t>& numbers = names_.stream(block.stream);
    const int64_t *ts = ts_.data<int64_t>(), *dur = dur_.data<int64_t>(), *correlation = correlation_.data<int64_t>(),
                  *stream = stream_.data<int64_t>();
    const int64_t* tid = tid_.data<int64_t>();
    const auto* name = name_.data<uint32_t>();
    const auto* launch = launch_.data<uint32_t>();
    const auto* type = type_.data<uint8_t>();
    RankRows* rows = nullptr;
    int64_t current = 0;
    for (uint32_t r = 0; r < block.rows; ++r) {
      if (!ts_.valid(r) || !dur_.valid(r)) continue;
      const int64_t process = !need_pid || rank_.valid(r) ? rank_.data<int32_t>()[r]
                              : pid_.valid(r)             ? -1 - pid_.data<int64_t>()[r]
                                                          : -1;
      if (process < task.low || process > task.high) continue;
      if (!rows || process != current) {
        auto [it, fresh] = ranks.try_emplace(process);
        if (fresh) it->second = std::exchange(spare_, {});
        rows = &it->second;
        current = process;
      }
      int64_t end;
      if (__builtin_add_overflow(ts[r], dur[r], &end)) continue;
      rows->first = std::min(rows->first, ts[r]);
      rows->last = std::max(rows->last, end);
      const auto kind = static_cast<EventType>(std::min<int>(type[r], kEventTypes - 1));
      const bool has_id = correlation_.valid(r);
      const bool on_device =
          stream_.valid(r) && stream[r] >= 0 &&
          (isDeviceType(kind) ? kind != EventType::gpu_annotation || has_id : kind == EventType::sync && has_id);
      const uint32_t number = name_.valid(r) && name[r] < numbers.size() ? numbers[name[r]] : trace::kNoName;
      if (on_device) {
        const uint32_t shape = launch_.valid(r) && launch[r] < numbers.size() ? numbers[launch[r]] : trace::kNoName;
        rows->device.push_back(
            {ts[r], end, has_id ? correlation[r] : kNull, number, shape, indexOf(rows->streams, stream[r]), kind});
      } else if (has_id) {
        const bool known = tid_.valid(r) && rows->threads.size() < kMostThreads;
        const int32_t thread = known ? indexOf(rows->threads, tid[r]) : -1;
        rows->calls.push_back({ts[r], end, correlation[r], number, thread});
      } else if (options_.wanted_ranges && number != trace::kNoName && (*options_.wanted_ranges)[number]) {
        rows->ranges.push_back({ts[r], end, number});
      } else if (options_.host_work && kind == EventType::cpu_op && number != trace::kNoName) {
        rows->work.push_back({ts[r], end, number});
      }
    }
  }

  /// Of few values.
  static int32_t indexOf(std::vector<int64_t>& values, int64_t value) {
    auto it = std::find(values.begin(), values.end(), value);
    if (it == values.end()) it = values.insert(it, value);
    return static_cast<int32_t>(it - values.begin());
  }

  const trace::NameNumbers& names_;
  const RankRowsOptions& options_;
  BlockDecoder decoder_;
  RankRows spare_;  // nothing but memory
  ColumnData ts_, dur_, type_, name_, correlation_, rank_, pid_, stream_, launch_, tid_;
};

}  // namespace

namespace {

/// Whether the trace has events of one of the types.
bool hasTypes(const Reader& reader, std::initializer_list<EventType> types) {
  uint64_t wanted = 0;
  for (EventType type : types) wanted |= 1ull << static_cast<int>(type);
  for (const Block* block : reader.blocks(tableOf<EventRow>()))
    if (block->types() & wanted) return true;
  return false;
}

}  // namespace

bool hasDeviceWork(const Reader& reader) {
  return hasTypes(reader, {EventType::kernel, EventType::memcpy, EventType::memset, EventType::graph});
}

WorkPlace workPlaceOf(const Reader& reader, const trace::NameNumbers& names) {
  if (hasDeviceWork(reader)) return WorkPlace::device;
  if (!hasTypes(reader, {EventType::runtime, EventType::driver})) return WorkPlace::host;
  for (uint32_t n = 0; n < names.size(); ++n)
    for (std::string_view launch : {"LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch"})
      if (names.text(n).find(launch) != std::string_view::npos) return WorkPlace::lost;
  return WorkPlace::host;
}

size_t threadsOf(size_t asked) { return asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency()); }

Status eachRank(const Reader& reader, const trace::NameNumbers& names, const RankRowsOptions& options,
                const RankVisitor& visit) {
  const size_t threads = threadsOf(options.threads);
  const std::vector<Task> tasks = makeTasks(reader, options.memory_bytes / threads / sizeof(DeviceEvent));
  std::vector<std::unique_ptr<Loader>> loaders;
  for (size_t w = 0; w < threads; ++w) loaders.push_back(std::make_unique<Loader>(reader, names, options));
  auto rowsOf = [](const Task& task) {
    uint64_t rows = 0;
    for (const Block* block : task.blocks) rows += block->rows;
    return rows;
  };
  uint64_t total = 0, done = 0;
  for (const Task& task : tasks) total += rowsOf(task);
  std::mutex mutex;  // guards done, and progress
  parallelFor(tasks.size(), threads, [&](size_t t, size_t worker) {
    std::map<int64_t, RankRows> ranks = loaders[worker]->load(tasks[t]);
    for (auto& [process, rows] : ranks) {
      visit(rows, worker);
      loaders[worker]->recycle(rows);
    }
    if (!options.progress) return;
    std::lock_guard lock(mutex);
    options.progress(done += rowsOf(tasks[t]), total);
  });
  return {};
}

}  // namespace tracesmith::analysis
