// Live subscription to what agents send. Ingestion only says which bytes are new; one thread reads them back from the
// store, decodes them once and hands each subscriber what it asked for. Whoever is too slow loses events, which are
// counted; nobody waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/api.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cluster {

/// One subscriber's queue. Thread safe.
class Subscription {
 public:
  /// `ready` is called when there is something to take, from the stream's thread; not after close().
  Subscription(const EventFilter& filter, std::function<void()> ready);
  /// The oldest event; false if there is none. What was lost before it is in `event.lost`; at the end of the queue an
  /// event may hold nothing but that.
  bool take(LiveEvent& event);
  void close();

 private:
  friend class EventStream;
  bool wants(const std::string& node) const;
  bool wants(uint64_t type, int64_t rank) const;
  void put(const LiveEvent& event);
  void lose(uint64_t events);
  void wake();

  const EventFilter filter_;
  uint64_t types_ = ~0ull;
  std::mutex mutex_;  // guards what follows
  std::deque<LiveEvent> queue_;
  uint64_t lost_ = 0;
  std::mutex ready_mutex_;  // guards ready_; held while it runs
  std::function<void()> ready_;
};

class EventStream {
 public:
  EventStream();
  ~EventStream();

  /// Fails for a type there is not.
  Result<std::shared_ptr<Subscription>> subscribe(const EventFilter& filter, std::function<void()> ready);
  void unsubscribe(const std::shared_ptr<Subscription>& subscription);

  /// A node's segment has grown from `from` to `to` bytes, with so many events in them. Does not wait for anybody.
  void grown(const std::string& node, const std::string& path, uint64_t from, uint64_t to, uint64_t events);

 private:
  struct Piece {
    std::string node, path;
    uint64_t from, to, events;
  };
  struct Source;
  void loop();
  void deliver(const Piece& piece, const std::vector<std::shared_ptr<Subscription>>& to);
  void deliverTable(Source& source, const trace::TableInfo& table, const Piece& piece,
                    const std::vector<std::shared_ptr<Subscription>>& to);

  std::atomic<bool> any_{false};  // subscribers
  std::mutex mutex_;              // guards what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Subscription>> subscribers_;  // shared with the calls they belong to
  std::deque<Piece> pieces_;
  uint64_t behind_ = 0;  // bytes of pieces_
  bool stop_ = false;
  std::thread thread_;
  std::map<std::string, std::unique_ptr<Source>> sources_;  // by node; of the thread
};

}  // namespace tracesmith::cluster
