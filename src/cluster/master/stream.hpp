// What the streams of the service have in common.
#pragma once

#include <mutex>

#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {

/// One write at a time, and one end.
template <typename Reactor, typename Message>
class Stream : public Reactor {
 public:
  void finish(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (finished_) return;
    finished_ = true;
    this->Finish(status);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    if (ok) pump();
  }
  void OnCancel() override { finish(grpc::Status::CANCELLED); }

 protected:
  /// Waits for calls that are about to return: gRPC says that they have, but not in a way that the thread sanitizer
  /// sees.
  void settle() { std::lock_guard lock(mutex_); }
  /// The next message to write; false if there is none. Under mutex_.
  virtual bool next(Message& message) = 0;
  /// Whether nothing will come any more. Under mutex_.
  virtual bool complete() { return false; }

  /// Starts the next write. Under mutex_.
  void pump() {
    if (writing_ || finished_) return;
    outgoing_.Clear();
    if (!next(outgoing_)) {
      if (!complete()) return;
      finished_ = true;
      return this->Finish(grpc::Status::OK);
    }
    writing_ = true;
    this->StartWrite(&outgoing_);
  }

  std::mutex mutex_;  // guards what follows, and what next() reads

 private:
  Message outgoing_;
  bool writing_ = false, finished_ = false;
};

}  // namespace tracesmith::cluster
