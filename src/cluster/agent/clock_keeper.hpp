// Keeps an agent's clock related to the reference: the master's clock, by exchanges in bursts; or, where the agent is
// told so, an NTP server or a PTP clock. The fit, and what is known after a restart.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "model/travel.hpp"
#include "sync/clock_fit.hpp"
#include "sync/exchange.hpp"
#include "sync/sources.hpp"

namespace tracesmith::cluster {

struct ClockReport {
  sync::ClockModel model;  ///< "system clock" as long as no master was asked
  uint64_t faults = 0;
  int64_t delay_ns = 0;

  /// Nothing: the clock is not known yet.
  std::optional<model::ClockStatus> status() const {
    if (!model.valid()) return std::nullopt;
    return model::ClockStatus{model.offset_ns, model.drift_ppm, model.bound_ns, delay_ns, model.method, faults};
  }
};

/// Thread safe.
class ClockKeeper {
 public:
  /// `file` keeps the last model for the next run on the same boot of the kernel.
  explicit ClockKeeper(std::string file, sync::Source source = {});
  ~ClockKeeper();

  /// From now on this server is asked; the first burst is done when it returns. False if nobody answered. With another
  /// source than the exchange this and add() change nothing.
  bool follow(const std::string& host, uint16_t port, uint64_t key, const std::string& interface = {});
  /// Where datagrams do not get through: exchanges made over the connection.
  void add(const std::vector<sync::Exchange>& burst);

  /// The clock that exchanges compare with has this id from now on. What is known of another one counts no more.
  void relateTo(const std::string& reference);
  /// Its id, and what it says now, within 10 ms; 0: not known.
  std::pair<std::string, int64_t> reference() const;

  /// Asks once more, at once.
  Status synchronize();
  ClockReport now() const;
  /// Why NTP or PTP last gave no answer; empty: it did, or is not asked.
  std::string problem() const;
  int64_t toReference(int64_t raw) const { return now().model.toReference(raw); }
  int64_t toRaw(int64_t reference) const { return now().model.toRaw(reference); }

 private:
  void loop();
  void save() const;
  void load();

  bool exchanges() const { return source_.kind == sync::Source::Kind::exchange; }
  /// One reading of the source, one burst with the master, into the fit. The lock is let go meanwhile.
  Status askSource(std::unique_lock<std::mutex>& lock);
  Status askMaster(std::unique_lock<std::mutex>& lock);

  const std::string file_;
  const sync::Source source_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::shared_ptr<sync::ExchangeClient> client_;  // shared: a burst goes on while another is put in its place
  sync::ClockFit fit_;
  sync::ClockModel saved_;  // of the run before
  std::string reference_;   // id of the clock that both relate to; empty: not known
  std::string problem_;
  uint64_t round_ = 0, done_ = 0;  // of the loop: begun, ended
  Status answer_;                  // of the last that ended
  bool hurry_ = false;             // the next round is wanted now
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
