#include "cluster/master/event_stream.hpp"

#include <algorithm>

#include "cluster/wire/segment.hpp"
#include "cluster/wire/trace_events.hpp"
#include "trace/clocks.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr size_t kMostQueued = 1u << 16;     // events of a subscriber that wait
constexpr uint64_t kMostBehind = 64u << 20;  // bytes that wait to be decoded
constexpr size_t kMostSubscribers = 64;

}  // namespace

/// A segment that is being read, with its strings and clock.
struct EventStream::Source {
  std::string path;
  std::unique_ptr<Reader> reader;
  trace::ClockTable clock;
};

Subscription::Subscription(const EventFilter& filter, std::function<void()> ready)
    : filter_(filter), ready_(std::move(ready)) {
  if (filter.types.empty()) return;
  types_ = 0;
  for (const std::string& type : filter.types) types_ |= typeBit(type);
}

bool Subscription::wants(const std::string& node) const {
  return filter_.nodes.empty() || std::find(filter_.nodes.begin(), filter_.nodes.end(), node) != filter_.nodes.end();
}

bool Subscription::wants(uint64_t type, int64_t rank) const {
  return (types_ & type) != 0 &&
         (filter_.ranks.empty() || std::find(filter_.ranks.begin(), filter_.ranks.end(), rank) != filter_.ranks.end());
}

void Subscription::put(const LiveEvent& event) {
  std::lock_guard lock(mutex_);
  if (queue_.size() >= kMostQueued) {
    ++lost_;
    return;
  }
  queue_.push_back(event);
  queue_.back().lost = std::exchange(lost_, 0);
}

void Subscription::lose(uint64_t events) {
  std::lock_guard lock(mutex_);
  lost_ += events;
}

void Subscription::wake() {
  std::lock_guard lock(ready_mutex_);
  if (ready_) ready_();
}

void Subscription::close() {
  std::lock_guard lock(ready_mutex_);
  ready_ = nullptr;
}

bool Subscription::take(LiveEvent& event) {
  std::lock_guard lock(mutex_);
  if (!queue_.empty()) {
    event = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }
  event = {};
  event.lost = std::exchange(lost_, 0);
  return event.lost > 0;
}

EventStream::EventStream() = default;
EventStream::~EventStream() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::shared_ptr<Subscription>> EventStream::subscribe(const EventFilter& filter, std::function<void()> ready) {
  for (const std::string& type : filter.types)
    if (typeBit(type) == 0)
      return Status::invalid("no events of type '" + type.substr(0, 64) +
                             "': kernel, memcpy, memset, runtime, driver, sync, graph, annotation, marker, collective");
  auto subscription = std::make_shared<Subscription>(filter, std::move(ready));
  std::lock_guard lock(mutex_);
  if (subscribers_.size() >= kMostSubscribers) return Status::busy("too many clients follow events (limit 64)");
  subscribers_.push_back(subscription);
  any_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  return subscription;
}

void EventStream::unsubscribe(const std::shared_ptr<Subscription>& subscription) {
  subscription->close();
  std::lock_guard lock(mutex_);
  std::erase(subscribers_, subscription);
  any_ = !subscribers_.empty();
}

void EventStream::grown(const std::string& node, const std::string& path, uint64_t from, uint64_t to, uint64_t events) {
  if (!any_) return;
  std::lock_guard lock(mutex_);
  pieces_.push_back({node, path, from, to, events});
  behind_ += to - from;
  while (behind_ > kMostBehind && pieces_.size() > 1) {
    const Piece& oldest = pieces_.front();
    for (auto& s : subscribers_)
      if (s->wants(oldest.node)) s->lose(oldest.events);
    behind_ -= oldest.to - oldest.from;
    pieces_.pop_front();
  }
  changed_.notify_one();
}

void EventStream::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait(lock, [&] { return stop_ || !pieces_.empty(); });
    if (stop_) return;
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    behind_ -= piece.to - piece.from;
    std::vector<std::shared_ptr<Subscription>> wanting;
    for (auto& s : subscribers_)
      if (s->wants(piece.node)) wanting.push_back(s);
    lock.unlock();
    if (!wanting.empty()) deliver(piece, wanting);
    lock.lock();
    if (subscribers_.empty()) {
      pieces_.clear();
      behind_ = 0;
      sources_.clear();
    }
  }
}

void EventStream::deliver(const Piece& piece, const std::vector<std::shared_ptr<Subscription>>& to) {
  std::unique_ptr<Source>& source = sources_[piece.node];
  const Status status = [&]() -> Status {
    if (!source || source->path != piece.path) {
      source.reset();
      Result<std::unique_ptr<Reader>> reader = Reader::open(piece.path);
      if (!reader) return reader.status();
      source = std::make_unique<Source>();
      source->path = piece.path;
      source->reader = std::move(*reader);
    } else {
      TS_TRY(source->reader->refresh());
    }
    Result<trace::Clocks> clocks = trace::readClocks(*source->reader);
    if (!clocks) return clocks.status();
    source->clock = std::move((*clocks)[piece.node]);
    return {};
  }();
  if (!status) {  // retention removed it
    for (auto& s : to) s->lose(piece.events);
    source.reset();
  } else {
    deliverTable(*source, tableOf<EventRow>(), piece, to);
    deliverTable(*source, tableOf<CollectiveRow>(), piece, to);
  }
  for (auto& s : to) s->wake();
}

void EventStream::deliverTable(Source& source, const TableInfo& table, const Piece& piece,
                               const std::vector<std::shared_ptr<Subscription>>& to) {
  BlockRows rows(*source.reader, table, {}, traceEventColumns(table));
  for (const Block* block : rows.candidates()) {
    if (block->offset < piece.from || block->offset >= piece.to || block->stream == kSummaryStream) continue;
    if (!rows.load(*block)) continue;
    for (const uint32_t r : rows.rows()) {
      const Row row{&rows, r};
      const uint64_t type = typeBit(table, row);
      const int64_t rank = rankOf(table, row);
      LiveEvent event;
      bool made = false;
      for (auto& s : to) {
        if (!s->wants(type, rank)) continue;
        if (!made) {
          event.node = piece.node;
          if (rank != kNull) event.rank = rank;
          event.event = toTraceEvent(table, row);
          const auto raw = static_cast<int64_t>(event.event.timestamp);
          event.event.timestamp = static_cast<Timestamp>(source.clock.toReference(raw));
          made = true;
        }
        s->put(event);
      }
    }
  }
}

}  // namespace tracesmith::cluster
