#include "capture/sim/live.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "capture/ring/reader.hpp"
#include "capture/sim/rows.hpp"

namespace tracesmith::sim {

using ring::Kind;
using ring::Record;
using trace::EventType;

namespace {

constexpr uint32_t kComputeStream = 7, kCopyStream = 14, kCommStream = 24;  // and the next five
constexpr uint32_t kHostLane = 1, kContext = 1;
constexpr auto kPeriod = std::chrono::milliseconds(2);
constexpr double kSavedPerNs = 0.3;  // bytes of a checkpoint: a good disk

/// bfloat16, RING, LL: where they stand in NCCL's lists (nccl_names.hpp).
constexpr uint16_t kDatatype = 10, kChannels = 24;
constexpr uint8_t kAlgo = 2, kProto = 1;

const char* functionOf(const CollectiveModel& model) {
  if (model.pair()) return model.sends() ? "Send" : "Recv";
  return model.kernel_name == 0 ? "AllGather" : model.kernel_name == 1 ? "AllReduce" : "ReduceScatter";
}

}  // namespace

/// A record and when the probe would write it: host calls as they are made, the GPU's work when it is done.
struct LiveJob::Entry {
  int64_t at;  // simulated ns
  uint32_t lane;
  int64_t correlation;
  int64_t start, end;  // simulated ns
  Part part;
  bool collective;
  Record record;
};

struct LiveJob::Rank {
  int rank = 0;
  ClockTruth clock;
  std::string path;
  alignas(ring::RingWriter) char memory[sizeof(ring::RingWriter)];
  ring::RingWriter* ring = nullptr;
  std::vector<uint32_t> kernels, shapes, apis, ranges, copies, collective_kernels;  // string ids, 0 = not asked for yet
  uint32_t memset = 0;
  std::vector<Entry> entries;
  size_t written = 0;
  double save_from = 0, save_to = 0;  // of its checkpoint what is still to be written, ns since the start

  uint32_t id(std::vector<uint32_t>& ids, uint32_t index, const std::string& text) {
    if (ids[index] == 0) ids[index] = ring->intern(text.c_str(), text.size());
    return ids[index];
  }
};

LiveJob::LiveJob(const LiveConfig& config) : config_(config), job_(config.job) {
  const auto ranks = static_cast<size_t>(job_.config().ranks);
  if (config_.ranks_here == 0) config_.ranks_here = job_.config().ranks - config_.first_rank;
  states_.resize(ranks);
  times_.resize(ranks * job_.collectives().size());
  random_.assign(ranks, Random(0));
}

Result<std::unique_ptr<LiveJob>> LiveJob::create(const LiveConfig& config) {
  if (config.job.ranks < 1 || config.first_rank < 0 || config.first_rank + config.ranks_here > config.job.ranks)
    return Status::invalid("the ranks simulated here are not ranks of the job");
  TS_TRY(checkLayout(config.job));
  std::string folder = config.folder;
  if (folder.empty()) {
    Result<std::string> users = ring::ringFolder();
    if (!users) return users.status();
    folder = *users;
  }
  std::unique_ptr<LiveJob> live(new LiveJob(config));
  // How long a step takes by itself says how much to stretch it.
  const std::vector<RankState> before = live->states_;
  live->job_.setCheckpointMs(0);
  live->simulate(0);
  int64_t end = 0;
  for (const RankState& s : live->states_) end = std::max(end, s.host);
  live->scale_ = config.step_ms * 1e6 / static_cast<double>(end);
  live->job_.setCheckpointMs(config.job.faults.checkpoint_ms / live->scale_);  // it lasts as long as it was asked to
  live->states_ = before;
  live->start_ns_ = config.start_ns ? config.start_ns : ring::nowNs();
  for (int r = live->config_.first_rank; r < live->config_.first_rank + live->config_.ranks_here; ++r)
    TS_TRY(live->makeRing(r, folder));
  return live;
}

LiveJob::~LiveJob() {
  for (auto& rank : ranks_) {
    if (!rank->ring) continue;
    rank->ring->header().state = ring::State::ended;
    rank->ring->unmap();
    if (!config_.keep_rings) ::unlink(rank->path.c_str());
  }
}

std::vector<std::string> LiveJob::ringPaths() const {
  std::vector<std::string> paths;
  for (const auto& rank : ranks_) paths.push_back(rank->path);
  return paths;
}

Status LiveJob::makeRing(int r, const std::string& folder) {
  auto rank = std::make_unique<Rank>();
  rank->rank = r;
  rank->clock = job_.clock(job_.nodeOf(r));
  rank->path = folder + "/" + std::to_string(::getpid()) + "." + std::to_string(start_ns_) + ".sim" +
               std::to_string(r) + ".ring";
  const ring::RingOptions options{.lane0_records = config_.ring_records,
                                  .lane_records = std::max(1024u, config_.ring_records / 8),
                                  .lanes = 2,
                                  .strings_bytes = 1u << 20,
                                  .string_slots = 1u << 14};
  rank->ring = ring::RingWriter::create(rank->path.c_str(), options, rank->memory);
  if (!rank->ring) return errnoStatus("create", rank->path);
  ring::RingHeader& h = rank->ring->header();
  const int per_node = job_.config().gpus_per_node;
  h.pid = pidOf(job_, r);
  h.parent_pid = ::getpid();
  h.simulated = 1;
  h.rank = r;
  h.world_size = job_.config().ranks;
  h.local_rank = r % per_node;
  h.mode = 1;
  h.recording = config_.recording;
  h.cuda_state = 1;
  h.reader = config_.reader;
  h.start_ns = raw(*rank, 0);
  h.start_unix_ns = start_ns_ + static_cast<uint64_t>(unixMinusRaw());
  std::strncpy(h.command, "python3 train.py (simulated)", sizeof h.command - 1);
  const std::string host = config_.host.empty() ? "node" + std::to_string(job_.nodeOf(r)) : config_.host;
  std::strncpy(h.host, host.c_str(), sizeof h.host - 1);
  rank->ring->addLane(h.pid);
  rank->kernels.resize(job_.kernels().size());
  rank->shapes.resize(job_.kernels().size() + 1);
  rank->apis.resize(kApiCount);
  rank->ranges.resize(kRangeCount);
  rank->copies.resize(kCopyCount);
  rank->collective_kernels.resize(job_.collectiveKernels().size());
  rank->memset = rank->ring->intern("Memset (Device)");
  for (int g = 0; g < kGroups; ++g) {
    const auto group = static_cast<Group>(g);
    const GroupPlace place = job_.place(r, group);
    const bool used = job_.config().laidOut() ? group == Group::world || place.size > 1 : g < 2;
    if (!used) continue;
    static const char* const kNames[kGroups] = {"world", "tp", "dp", "pp"};
    const char* name = group == Group::node && !job_.config().laidOut() ? "node" : kNames[g];
    const int last = job_.member(group, place.id, place.size - 1), first = job_.member(group, place.id, 0);
    const ring::CommRecord comm{.hash = commHash(group, place.id),
                                .name = rank->ring->intern(name),
                                .start = raw(*rank, 0),
                                .rank = place.rank,
                                .ranks = place.size,
                                .nodes = 1 + job_.nodeOf(last) - job_.nodeOf(first)};
    rank->ring->writeLane(kHostLane, encode(comm));
  }
  h.state = ring::State::alive;
  ranks_.push_back(std::move(rank));
  return {};
}

uint64_t LiveJob::commHash(Group group, int id) const {
  const uint64_t place = group == Group::world  ? 1
                         : group == Group::node ? 2 + static_cast<uint64_t>(id)
                                                : (static_cast<uint64_t>(group) << 32) + static_cast<uint64_t>(id);
  uint64_t h = job_.config().seed * 0x9e3779b97f4a7c15ull + place;
  h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9ull;
  return h ^ (h >> 29);
}

uint64_t LiveJob::raw(const Rank& rank, int64_t t) const {
  const double reference = static_cast<double>(t) * scale_, drift = rank.clock.drift_ppm * 1e-6;
  return start_ns_ +
         static_cast<uint64_t>(static_cast<int64_t>(reference - reference * drift / (1 + drift)) - rank.clock.offset);
}

void LiveJob::simulate(int step) {
  const size_t collectives = job_.collectives().size();
  const int ranks = job_.config().ranks;
  std::vector<int64_t> begin(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    begin[static_cast<size_t>(r)] = states_[static_cast<size_t>(r)].host;
    random_[static_cast<size_t>(r)] = job_.stepRandom(r, step);
  }
  job_.simulateStep(step, states_, times_, [&](int which, int first, int last, const RankPart& work) {
    for (int r = first; r < last; ++r) {
      const auto i = static_cast<size_t>(r);
      Rank* rank = here(r) && !ranks_.empty() ? &local(r) : nullptr;
      const Sink sink = [&](const SimEvent& e) {
        if (rank) take(*rank, e, static_cast<Part>(which));
      };
      work(r, states_[i], &times_[i * collectives], random_[i], sink);
    }
  });
  const Faults& faults = job_.config().faults;
  const bool hang = faults.hang_rank >= 0 && step >= faults.hang_step;
  for (auto& rank : ranks_) {
    const auto i = static_cast<size_t>(rank->rank);
    const CollectiveTime* times = &times_[i * collectives];
    launches(*rank, step, times);
    if (job_.saves(rank->rank, step)) {
      rank->save_to = static_cast<double>(times[collectives - 1].enqueue) * scale_;
      rank->save_from = rank->save_to - config_.job.faults.checkpoint_ms * 1e6;
    }
    const Record record = encode(ring::StepRecord{.step = step});
    rank->entries.push_back({begin[i], kHostLane, 0, begin[i], begin[i], Part::compute, false, record});
    rank->entries.push_back({states_[i].host, kHostLane, 0, begin[i], states_[i].host, Part::end, false, record});
    if (hang) cutAtHang(*rank, times);
    if (config_.host_lag_ms > 0)
      for (Entry& e : rank->entries)
        if (e.lane == kHostLane) e.at += static_cast<int64_t>(config_.host_lag_ms * 1e6 / scale_);
    std::stable_sort(rank->entries.begin(), rank->entries.end(),
                     [](const Entry& a, const Entry& b) { return a.at < b.at; });
    rank->written = 0;
  }
  if (hang) hangs_ = true;
}

void LiveJob::take(Rank& rank, const SimEvent& e, Part part) {
  Entry entry{e.end, 0, e.correlation, e.start, e.end, part, e.collective, {}};
  const auto device = static_cast<uint16_t>(rank.rank % job_.config().gpus_per_node);
  const uint32_t correlation = e.correlation == trace::kNull ? 0 : static_cast<uint32_t>(e.correlation);
  const auto thread = static_cast<uint32_t>(rank.ring->header().pid + (e.backward_thread ? 64 : 0));
  auto kernelName = [&] {
    return e.collective ? rank.id(rank.collective_kernels, e.name, job_.collectiveKernels()[e.name])
                        : rank.id(rank.kernels, e.name, job_.kernels()[e.name].name);
  };
  auto shape = [&] {
    return e.collective ? rank.id(rank.shapes, static_cast<uint32_t>(job_.kernels().size()), kCollectiveShape.text())
                        : rank.id(rank.shapes, e.name, job_.kernels()[e.name].shape.text());
  };
  switch (e.type) {
    case EventType::kernel:
      entry.record = encode(
          ring::KernelRecord{.name = kernelName(),
                             .launch = shape(),
                             .device = device,
                             .stream = e.collective ? kCommStream + static_cast<uint32_t>(e.stream) : kComputeStream,
                             .correlation = correlation,
                             .context = kContext});
      break;
    case EventType::memcpy:
    case EventType::memset:
      entry.record = encode(ring::CopyRecord{
          .set = e.type == EventType::memset,
          .name = e.type == EventType::memcpy ? rank.id(rank.copies, e.name, kCopyNames[e.name]) : rank.memset,
          .bytes = static_cast<uint64_t>(e.bytes),
          .device = device,
          .stream = kCopyStream,
          .correlation = correlation,
          .context = kContext});
      break;
    case EventType::runtime:
      entry.record = encode(ring::CallRecord{
          .name = rank.id(rank.apis, e.name, kApiNames[e.name]), .correlation = correlation, .thread = thread});
      break;
    case EventType::sync:
      entry.record = encode(ring::SyncRecord{
          .name = rank.id(rank.apis, e.name, kApiNames[e.name]), .correlation = correlation, .context = kContext});
      break;
    case EventType::annotation:
      entry.record =
          encode(ring::RangeRecord{.name = {rank.id(rank.ranges, e.name, kRangeNames[e.name])}, .thread = thread});
      entry.lane = kHostLane;
      break;
    default:
      return;  // operators of the framework: the probe does not see them
  }
  rank.entries.push_back(entry);
}

void LiveJob::launches(Rank& rank, int step, const CollectiveTime* times) {
  const auto& models = job_.collectives();
  for (size_t k = 0; k < models.size(); ++k) {
    if (!job_.takesPart(rank.rank, models[k])) continue;
    const CollectiveModel& model = models[k];
    const CollectiveTime& t = times[k];
    const ring::LaunchRecord launch{.stream = kCommStream + static_cast<uint32_t>(job_.streamOf(model))};
    rank.entries.push_back(
        {t.enqueue + 1, kHostLane, t.correlation, t.enqueue, t.called, Part::compute, true, encode(launch)});
    const GroupPlace place = job_.place(rank.rank, model.group);
    ring::OperationRecord o{.pair = model.pair(),
                            .function = rank.ring->intern(functionOf(model)),
                            .comm = commHash(model.group, place.id),
                            .sequence = static_cast<uint64_t>(job_.numberOf(rank.rank, model, step)),
                            .elements = static_cast<uint64_t>(model.bytes / 2),
                            .rank = place.rank,
                            .ranks = static_cast<uint32_t>(place.size),
                            .datatype = kDatatype,
                            .algo = kAlgo,
                            .proto = kProto,
                            .channels = kChannels};
    if (model.pair())
      o.peer = job_.peerOf(rank.rank, model);
    else
      o.nccl_sequence = static_cast<uint64_t>(Job::ncclNumberOf(model, step));
    rank.entries.push_back(
        {t.enqueue + 1, kHostLane, t.correlation, t.enqueue, t.enqueue, Part::compute, true, encode(o)});
  }
}

/// One rank stops before it launches a collective. The others launch it, and all that comes after, and wait.
void LiveJob::cutAtHang(Rank& rank, const CollectiveTime* times) {
  const auto& models = job_.collectives();
  // In a pipeline all would stand still somewhere else: there it is the last one.
  size_t k = job_.config().laidOut() ? models.size() - 1 : models.size() / 2;
  while (models[k].group != Group::world) ++k;
  const CollectiveTime& missing = times[k];
  const bool culprit = rank.rank == job_.config().faults.hang_rank;
  std::erase_if(rank.entries, [&](const Entry& e) {
    if (e.record.kind == Kind::sync || (e.record.kind == Kind::step && e.end > e.start)) return true;  // does not end
    const bool on_gpu = e.record.kind == Kind::kernel || e.record.kind == Kind::memcpy || e.record.kind == Kind::memset;
    if (culprit) return on_gpu ? e.correlation >= missing.correlation : e.end >= missing.enqueue;
    if (!on_gpu) return false;
    if (job_.config().sharded && e.start >= missing.start) return true;  // layers wait for their parameters
    return e.collective ? e.correlation >= missing.correlation : e.part == Part::optimizer && !job_.config().laidOut();
  });
}

/// What the rank writes of its checkpoint until now shows as I/O of its process.
void LiveJob::save(Rank& rank, double elapsed_ns) {
  const double until = std::clamp(elapsed_ns, rank.save_from, rank.save_to);
  rank.ring->header().simulated_io_bytes += static_cast<uint64_t>((until - rank.save_from) * kSavedPerNs);
  rank.save_from = until;
}

bool LiveJob::write(const std::atomic<bool>& stop) {
  bool done = false;
  while (!done && !stop) {
    done = true;
    const double elapsed = static_cast<double>(static_cast<int64_t>(ring::nowNs() - start_ns_)) * config_.speed;
    for (auto& rank : ranks_) {
      save(*rank, elapsed);
      while (rank->written < rank->entries.size()) {
        Entry& e = rank->entries[rank->written];
        if (config_.speed > 0 ? static_cast<double>(e.at) * scale_ > elapsed : rank->ring->fullLane(e.lane)) break;
        e.record.start = raw(*rank, e.start);
        e.record.end = raw(*rank, e.end);
        if (isOperation(e.record.kind) || e.end == e.start) e.record.end = 0;  // begins
        if (rank->ring->header().recording.load(std::memory_order_relaxed)) rank->ring->writeLane(e.lane, e.record);
        ++rank->written;
      }
      done &= rank->written == rank->entries.size();
    }
    if (!done) std::this_thread::sleep_for(kPeriod);
  }
  for (auto& rank : ranks_) rank->entries.clear();
  return done;
}

void LiveJob::beginNow() { start_ns_ = ring::nowNs(); }

void LiveJob::run(const std::atomic<bool>& stop) {
  auto read = [](const auto& rank) { return rank->ring->header().reader.load() != 0; };
  while (config_.wait_for_reader && !stop && !std::all_of(ranks_.begin(), ranks_.end(), read))
    std::this_thread::sleep_for(kPeriod);
  for (uint64_t step = steps_done_; (config_.steps == 0 || step < config_.steps) && !stop; ++step) {
    simulate(static_cast<int>(step));
    if (!write(stop)) return;
    if (hangs_) break;
    steps_done_ = step + 1;
  }
  while (hangs_ && !stop) std::this_thread::sleep_for(kPeriod);
}

}  // namespace tracesmith::sim
