#include "cluster/master/master.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "access/names.hpp"
#include "base/clock.hpp"
#include "cluster/master/retention.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kSyncPeriod = std::chrono::milliseconds(20);  // pieces that come within it are made durable together
constexpr auto kHousePeriod = std::chrono::milliseconds(500);
constexpr auto kReferencePeriod = std::chrono::seconds(2);
constexpr int kCulpritsMs = 1000;                            // what an alert waits for their stacks at most
constexpr int64_t kSameTime = 20'000'000;                    // ns: what a node may be wrong by, and more
constexpr int64_t kUnsureNs = 60'000'000'000;                // in which nodes come back to a master
constexpr int64_t kMostStep = 30 * 86400 * 1'000'000'000LL;  // ns: nobody was away for longer

}  // namespace

Result<std::unique_ptr<Master>> Master::open(const MasterOptions& options) {
  std::unique_ptr<Master> master(new Master());
  master->options_ = options;
  TS_TRY(master->declared_.open(options.nodes_file));
  TS_TRY(makePrivateFolder(options.data_dir));
  const std::string lock = options.data_dir + "/master.lock";
  master->lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (master->lock_ < 0) return errnoStatus("create", lock);
  if (::flock(master->lock_, LOCK_EX | LOCK_NB) != 0)
    return Status::invalid("another master is using " + options.data_dir + ": give this one its own --data-dir");
  Result<std::unique_ptr<Store>> store = Store::open(options.data_dir);
  if (!store) return store.status();
  master->store_ = std::move(*store);
  TS_TRY(master->sessions_.open(options.data_dir));
  TS_TRY(master->openReference());
  master->loadNodes();
  master->watch_ = std::make_unique<LiveWatch>(
      [m = master.get()] { return m->referenceNow(); }, int64_t{options.timeout_ms} * 1'000'000,
      [m = master.get()](const ProcessQuery& query) { return m->processes(query, kCulpritsMs); });
  master->balance_ = std::make_unique<BalanceDesk>(
      [m = master.get()] { return m->referenceNow(); },
      [m = master.get()](const std::string& node, const PlanOrder& order) { m->sendPlan(node, order); });
  master->dirty_ = true;  // what an earlier run wrote may not be safe yet
  master->syncer_ = std::thread([m = master.get()] { m->syncLoop(); });
  TS_TRY(master->startExports());
  return master;
}

Master::~Master() {
  questions_.close();
  spans_.reset();  // they read what follows
  {
    std::unique_ptr<sink::Exports> exports;
    std::unique_ptr<ClickHouseFeed> clickhouse;
    std::lock_guard lock(mutex_);
    exports.swap(exports_);
    clickhouse.swap(clickhouse_);
  }
  watch_.reset();
  if (syncer_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    syncer_.join();
  }
  if (lock_ >= 0) ::close(lock_);
}

/// A master that is restarted goes on with the same clock; after a boot there is a new one. It never goes back behind
/// what is stored, though the machine's clock may have been set back: two sessions would have the same time, and the
/// data of one would pass for that of the other.
Status Master::openReference() {
  std::ifstream in(referenceFile());
  std::string was;
  int64_t anchor = 0, last = 0;
  const bool known = static_cast<bool>(in >> was >> anchor);
  anchor_ns_ = anchor;
  if (in >> last; !in) last = 0;
  if (!(in >> reference_id_)) reference_id_ = access::randomHex(16);
  int64_t unsure = 0;
  if (in >> unsure) unsure_until_ns_ = unsure;
  for (const std::string& node : store_->nodes()) last = std::max(last, store_->coveredUntil(node));
  for (const SessionRecord& s : sessions_.all()) {
    last = std::max(last, s.start_ns);
    for (const model::Pause& p : s.pauses) last = std::max(last, p.to_ns);
  }
  const bool same = known && was == access::kernelBootId();
  if (!same) anchor_ns_ = unixClock() - rawClock();
  const bool continued = referenceNow() <= last;
  if (continued) {
    std::fprintf(stderr,
                 "tracesmith: the clock of this machine is %.1f s behind what the master has stored; times of sessions "
                 "continue from there\n",
                 static_cast<double>(last - referenceNow()) / 1e9);
    anchor_ns_ = last + 1 - rawClock();
  }
  if (known && (!same || continued)) unsure_until_ns_ = referenceNow() + kUnsureNs;
  return writeReference();
}

std::string Master::referenceFile() const { return options_.data_dir + "/reference"; }

/// With the time it is, for a master that finds itself on another boot.
Status Master::writeReference() const {
  std::lock_guard lock(files_mutex_);
  Result<OutputFile> out = OutputFile::create(referenceFile());
  if (!out) return out.status();
  TS_TRY(out->write(access::kernelBootId() + " " + std::to_string(anchor_ns_) + " " + std::to_string(referenceNow()) +
                    " " + reference_id_ + " " + std::to_string(unsure_until_ns_) + "\n"));
  return out->commit();
}

/// A machine whose clock was set back before it booted knows only the last time that was stored. Nodes went on
/// meanwhile: what they recorded is later than that, and would lie behind the end of a session that is stopped now.
void Master::notBefore(const std::string& reference_id, int64_t now_ns, const std::string& node) {
  if (reference_id != reference_id_) return;
  std::lock_guard lock(mutex_);
  const int64_t behind = now_ns - referenceNow();
  // A clock that was read anew can be behind by little, too; one that goes on is right, and nodes are wrong by a
  // little.
  const bool unsure = referenceNow() < unsure_until_ns_;
  if (behind <= (unsure ? 0 : kSameTime) || behind > kMostStep) return;
  std::fprintf(stderr, "tracesmith: node %s knows a time %.3f s later: the master's clock continues from there\n",
               node.c_str(), static_cast<double>(behind) / 1e9);
  anchor_ns_ += behind;
  if (unsure) unsure_until_ns_ += behind;  // the next node may know a later time still
  (void)writeReference();                  // a full disk: written later
}

int64_t Master::referenceNow() const { return rawClock() + anchor_ns_; }

Status Master::take(const std::string& node, const std::string& epoch, uint32_t segment, uint64_t offset,
                    std::string_view data) {
  Result<Store::Taken> taken = store_->append(node, epoch, segment, offset, data, referenceNow());
  if (taken && !taken->expected) events_.grown(node, taken->path, offset, taken->size, taken->events);
  std::shared_ptr<AgentLink> link;
  std::lock_guard lock(mutex_);
  if (auto it = nodes_.find(node); it != nodes_.end()) {
    it->second.heard = Clock::now();
    link = it->second.link;
  }
  if (!taken) {
    if (taken.status().code() == Code::kInvalid) return taken.status();
    problem_ = taken.status().message();  // a full disk: agents keep what they have
    if (link) link->sendAck(epoch, segment, offset, true, problem_);
    return {};
  }
  problem_.clear();
  if (taken->expected) {
    if (link) {
      link->sendAck(epoch, segment, taken->size, true, {});
      if (taken->durable > 0) link->sendAck(epoch, segment, taken->durable, false, {});
    }
    return {};
  }
  dirty_ = true;
  changed_.notify_all();
  return {};
}

/// Makes pieces durable, many at once, and only then acknowledges them.
void Master::syncLoop() {
  auto house = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kHousePeriod, [&] { return dirty_ || stop_; });
    if (dirty_) {
      dirty_ = false;
      lock.unlock();
      std::vector<Store::Durable> durable;
      const Status synced = store_->sync(durable);
      lock.lock();
      sync_problem_ = synced.message();
      for (const Store::Durable& d : durable)
        if (auto it = nodes_.find(d.node); it != nodes_.end() && it->second.link)
          it->second.link->sendAck(d.epoch, d.number, d.size, false, {});
      changed_.wait_for(lock, synced ? kSyncPeriod : kHousePeriod, [&] { return stop_; });
      if (!synced) dirty_ = true;
    }
    if (Clock::now() - house >= kHousePeriod) {
      house = Clock::now();
      lock.unlock();
      keepHouse();
      lock.lock();
    }
  }
}

/// What a full disk did not take.
void Master::writeUnwritten() {
  Status status = sessions_.writeUnwritten();
  std::set<std::string> nodes;
  {
    std::lock_guard lock(mutex_);
    nodes = unwritten_;
  }
  for (const std::string& name : nodes) {
    NodeRegistration info;
    {
      std::lock_guard lock(mutex_);
      unwritten_.erase(name);
      auto it = nodes_.find(name);
      if (it == nodes_.end()) continue;
      info = it->second.info;
    }
    if (Status saved = saveNode(info); !saved) {
      status = saved;
      std::lock_guard lock(mutex_);
      unwritten_.insert(name);
    }
  }
  if (Clock::now() - reference_written_ >= kReferencePeriod && writeReference()) reference_written_ = Clock::now();
  std::lock_guard lock(mutex_);
  write_problem_ = status.message();
}

/// Ends sessions whose time has come, notes which are complete, removes what retention lets go.
void Master::keepHouse() {
  const int64_t now = referenceNow();
  bool changed = false;
  writeUnwritten();
  launches_.look();
  for (const SessionRecord& s : sessions_.all()) {
    if (!s.complete && s.end_ns != 0 && s.end_ns < now) {
      const bool complete = std::all_of(s.nodes.begin(), s.nodes.end(), [&](const std::string& node) {
        return store_->coveredUntil(node) >= s.end_ns;
      });
      if (complete) {
        (void)sessions_.change(s.id, [](SessionRecord& r) { r.complete = true; });
        changed = true;
      }
    }
  }
  const std::vector<SessionRecord> sessions = sessions_.all();
  for (const std::string& node : store_->nodes()) {
    const std::vector<SegmentInfo> segments = store_->segments(node);
    for (size_t i : removable(segments, sessions, now)) {
      if (!delivered(segments[i])) break;  // ClickHouse does not have it yet: retention waits
      if (!store_->remove(segments[i])) continue;
      for (const SessionRecord& s : sessions)
        if (touches(s, segments[i]))
          (void)sessions_.change(s.id, [&](SessionRecord& r) { r.removed_rows += segments[i].rows; });
    }
  }
  for (const SessionRecord& gone : sessions_.deleted()) (void)removeDataOf(gone);
  if (changed) sendCaptures();
}

}  // namespace tracesmith::cluster
