#include "server/timeline/timeline.hpp"

#include <algorithm>
#include <thread>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "base/parallel.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::server {
namespace {

constexpr size_t kCacheBytes = 256u << 20;

std::optional<int64_t> orNone(int64_t slot) { return slot == trace::kNull ? std::nullopt : std::optional(slot); }

}  // namespace

size_t cores() { return std::max<size_t>(1, std::thread::hardware_concurrency()); }

Result<std::unique_ptr<Timeline>> Timeline::open(const std::string& path, const std::string& index_file) {
  return start(path, index_file, nullptr, nullptr);
}

Result<std::unique_ptr<Timeline>> Timeline::openGrowing(const std::string& path, Timeline* before) {
  if (before && before->index_builder_) return start(path, "", &before->names_, std::move(before->index_builder_));
  return start(path, "", nullptr, std::make_unique<IndexBuilder>());
}

Result<std::unique_ptr<Timeline>> Timeline::start(const std::string& path, const std::string& index_file,
                                                  const trace::NameNumbers* names_before,
                                                  std::unique_ptr<IndexBuilder> index_builder) {
  std::unique_ptr<Timeline> t(new Timeline());
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!reader) return reader.status();
  t->reader_ = std::move(*reader);
  Result<trace::NameNumbers> names = trace::NameNumbers::load(*t->reader_, names_before);
  if (!names) return names.status();
  t->names_ = std::move(*names);
  Result<trace::Clocks> clocks = trace::readClocks(*t->reader_);
  if (!clocks) return clocks.status();
  t->clocks_ = std::move(*clocks);
  t->index_file_ = index_file;
  t->index_builder_ = std::move(index_builder);
  t->builder_ = std::thread([timeline = t.get()] { timeline->makeIndex(); });
  return t;
}

Timeline::~Timeline() {
  stop_ = true;
  if (builder_.joinable()) builder_.join();
}

void Timeline::makeIndex() {
  Result<std::unique_ptr<TimelineIndex>> index = Status::notFound("");
  if (!index_file_.empty()) index = TimelineIndex::load(index_file_, *reader_);
  if (!index) {
    index = buildIndex();
    // Where it cannot be written it is made again the next time.
    if (index && !index_file_.empty()) (void)(*index)->save(index_file_, *reader_);
  }
  if (!index) {
    failure_ = index.status();
    failed_ = true;
    return;
  }
  index_ = std::move(*index);
  ready_ = true;
}

Result<std::unique_ptr<TimelineIndex>> Timeline::buildIndex() {
  IndexBuilder once;
  IndexBuilder& builder = index_builder_ ? *index_builder_ : once;
  TS_TRY(builder.add(*reader_, names_, clocks_, cores(), progress_, stop_));
  return builder.index(names_, !index_builder_);
}

Result<bool> Timeline::ready(double& progress) const {
  progress = progress_ / 1000.0;
  if (failed_) return failure_;
  return ready_.load();
}

Status Timeline::waitUntilReady() {
  if (builder_.joinable()) builder_.join();
  return failed_ ? failure_ : Status();
}

uint64_t Timeline::events() const {
  uint64_t n = 0;
  for (const TrackIndex& t : index_->tracks) n += t.events;
  return n;
}

Timeline::Rows Timeline::decode(uint32_t summary) {
  std::unique_ptr<Decoding> decoding;
  {
    std::lock_guard lock(mutex_);
    if (auto it = where_.find(summary); it != where_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second);
      return it->second->second;
    }
    if (!idle_.empty()) {
      decoding = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!decoding) {
    decoding.reset(new Decoding{RowDecoder(*reader_, names_, clocks_), {}});
    for (const TrackIndex& t : index_->tracks) (void)decoding->numbers.of(t.key);
    std::call_once(in_flight_made_, [&] {
      auto in_flight = std::make_shared<InFlight>(*reader_, names_);
      in_flight->setEnd(index_->origin + index_->duration);
      in_flight_ = std::move(in_flight);
    });
    decoding->decoder.setInFlight(in_flight_);
  }
  auto rows = std::make_shared<TimelineRows>();
  const bool good =
      decoding->decoder.decode(reader_->blocks()[index_->blocks[summary].block], decoding->numbers, *rows).ok();
  for (int64_t& ts : rows->ts) ts -= index_->origin;
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(decoding));
  if (!good) return nullptr;
  if (auto it = where_.find(summary); it != where_.end()) return it->second->second;  // somebody else was quicker
  recent_.emplace_front(summary, rows);
  where_[summary] = recent_.begin();
  cached_bytes_ += rows->bytes();
  while (cached_bytes_ > kCacheBytes && recent_.size() > 1) {
    cached_bytes_ -= recent_.back().second->bytes();
    where_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return rows;
}

bool Timeline::isCached(uint32_t summary) {
  std::lock_guard lock(mutex_);
  return where_.contains(summary);
}

std::vector<Timeline::Rows> Timeline::rows(const std::vector<uint32_t>& summaries) {
  std::vector<Rows> all(summaries.size());
  const size_t threads = summaries.size() > 3 ? cores() : 1;
  parallelFor(summaries.size(), threads, [&](size_t i, size_t) { all[i] = decode(summaries[i]); });
  return all;
}

/// e12.7: events, block 12, row 7.
std::string Timeline::rowId(uint32_t summary, size_t row) const {
  const uint32_t block = index_->blocks[summary].block;
  return std::string(1, reader_->blocks()[block].table->name[0]) + std::to_string(block) + "." + std::to_string(row);
}

/// By node, rank and cause; those with a time one by one, unless there are very many.
std::vector<model::TimelineLoss> Timeline::losses() const {
  constexpr size_t kMoments = 1000;
  using namespace trace::losses;
  auto nameOf = [&](int64_t slot) {
    return slot == trace::kNull ? std::string() : std::string(names_.text(static_cast<uint32_t>(slot)));
  };
  std::map<std::tuple<std::string, int64_t, std::string, int64_t>, int64_t> sums;
  (void)analysis::eachRow<trace::LossRow>(
      *reader_, names_, {ts, node, rank, cause, trace::losses::count}, [&](const trace::LossRow& r, const auto&) {
        const std::string on = nameOf(r.node);
        const bool timed = r.ts != trace::kNull && sums.size() < kMoments;
        const int64_t when = timed ? trace::clockOf(clocks_, on).toReference(r.ts) - index_->origin : trace::kNull;
        sums[{on, r.rank, nameOf(r.cause), when}] += r.count == trace::kNull ? 1 : r.count;
      });
  std::vector<model::TimelineLoss> out;
  for (const auto& [what, sum] : sums) {
    const auto& [on, rank_number, why, when] = what;
    out.push_back({on, orNone(rank_number), why, sum, orNone(when)});
  }
  return out;
}

std::string Timeline::describe(const std::string& id, const std::string& title) const {
  // Names that the source gave: of a stream, pid is its device and tid the stream.
  std::map<std::tuple<uint32_t, int64_t, int64_t, int64_t>, uint32_t> named;
  using namespace trace::threads;
  (void)analysis::eachRow<trace::ThreadRow>(
      *reader_, names_, {node, rank, pid, tid, name}, [&](const trace::ThreadRow& r, const auto&) {
        if (r.name != trace::kNull)
          named[{static_cast<uint32_t>(r.node), r.rank, r.pid, r.tid}] = static_cast<uint32_t>(r.name);
      });
  std::map<std::tuple<uint32_t, int64_t, int64_t>, uint32_t> host_names;
  for (const auto& [key, n] : named) {
    const auto& [node_number, r, p, t] = key;
    if (p == trace::kNull || p > 1024 || p < 0) host_names[{node_number, analysis::processOf(r, p), t}] = n;
  }

  model::TimelineInfo out;
  out.id = id;
  out.title = title;
  out.origin_ns = index_->origin;
  out.duration_ns = index_->duration;
  out.simulated = trace::isSimulated(*reader_);
  if (const int64_t bound = clocks_.empty() ? INT64_MAX : worstBound(clocks_); bound != INT64_MAX)
    out.clock_bound_ns = bound;
  out.losses = losses();
  if (std::string damage = reader_->damageSummary(); !damage.empty()) out.notes.push_back(damage);
  if (out.simulated) out.notes.emplace_back("simulated data, not a measurement");
  if (analysis::isSummary(*reader_))
    out.notes.emplace_back(
        "a summary: only collectives, steps and events that took much longer than usual have bars; a gap is not idle "
        "time");
  // What belongs to no process belongs to the only one there is.
  int64_t only = -1;
  for (const TrackIndex& t : index_->tracks) {
    if (t.key.process == -1 || t.key.process == only) continue;
    only = only == -1 ? t.key.process : INT64_MIN;
    if (only == INT64_MIN) break;
  }
  for (size_t i = 0; i < index_->tracks.size(); ++i) {
    const TrackKey& k = index_->tracks[i].key;
    const int64_t owner = k.process == -1 && only != INT64_MIN ? only : k.process;
    const std::string node_name(names_.text(k.node));
    std::string track_name;
    if (k.kind == TrackKind::steps) track_name = "steps";
    if (k.kind == TrackKind::collectives) track_name = "collectives";
    const bool of_device = k.kind == TrackKind::stream || k.kind == TrackKind::gpu_ranges;
    const bool of_thread = k.kind == TrackKind::thread || k.kind == TrackKind::python || k.kind == TrackKind::stacks;
    if (of_device) {
      auto it = named.find({k.node, k.process >= 0 ? k.process : trace::kNull, k.major, k.minor});
      track_name = it != named.end() ? std::string(names_.text(it->second))
                                     : "GPU " + std::to_string(k.major) +
                                           (k.minor == trace::kNull ? "" : " stream " + std::to_string(k.minor));
    }
    if (of_thread) {
      auto it = host_names.find({k.node, k.process, k.minor});
      const std::string given = it != host_names.end() ? std::string(names_.text(it->second)) : "";
      if (isOtherThread(k.minor))
        track_name = "other";
      else if (!given.empty())
        track_name = given;
      else
        track_name = k.minor == trace::kNull ? "host" : "thread " + std::to_string(k.minor);
    }
    if (k.kind == TrackKind::gpu_ranges) track_name += ": ranges";
    if (k.kind == TrackKind::python) track_name += ": Python";
    if (k.kind == TrackKind::stacks) track_name = "stacks of " + track_name;
    const std::string process = owner >= 0    ? "rank " + std::to_string(owner)
                                : owner == -1 ? std::string("process")
                                              : "pid " + std::to_string(-1 - owner);
    model::Track track;
    track.id = i;
    track.node = node_name;
    if (owner >= 0) track.rank = owner;
    if (of_device) track.device = orNone(k.major), track.stream = orNone(k.minor);
    if (of_thread) track.tid = orNone(k.minor);
    track.kind = k.kind;
    track.name = std::move(track_name);
    track.group = node_name.empty() ? process : node_name + " / " + process;
    track.events = index_->tracks[i].events;
    track.depth = index_->tracks[i].depth;
    out.tracks.push_back(std::move(track));
  }
  out.gaps = gapsOf(out.tracks);
  for (uint8_t t = 0; t < kRowTypes; ++t) out.types.emplace_back(rowTypeName(t));
  return model::toJson(out);
}

}  // namespace tracesmith::server
