// Keeps an agent's clock related to the master's: exchanges in bursts, the fit, and what is known after a restart.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "model/travel.hpp"
#include "sync/clock_fit.hpp"
#include "sync/exchange.hpp"

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
  explicit ClockKeeper(std::string file);
  ~ClockKeeper();

  /// From now on this server is asked; the first burst is done when it returns. False if nobody answered.
  bool follow(const std::string& host, uint16_t port, uint64_t key);
  /// Where datagrams do not get through: exchanges made over the connection.
  void add(const std::vector<sync::Exchange>& burst);

  ClockReport now() const;
  int64_t toReference(int64_t raw) const { return now().model.toReference(raw); }
  int64_t toRaw(int64_t reference) const { return now().model.toRaw(reference); }

 private:
  void loop();
  void save() const;
  void load();

  const std::string file_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::shared_ptr<sync::ExchangeClient> client_;  // shared: a burst goes on while another is put in its place
  sync::ClockFit fit_;
  sync::ClockModel saved_;  // of the run before
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
