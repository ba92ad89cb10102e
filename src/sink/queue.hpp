// Messages that wait for a receiver, oldest first: one file each in a folder of their own, so that they are there after
// a restart. Bounded: where there is no room the oldest ones go.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "sink/sink.hpp"

namespace tracesmith::sink {

/// Thread safe.
class Queue {
 public:
  /// Takes up what an earlier run left.
  Status open(const std::string& folder, uint64_t most_bytes);

  /// Returns the items that were lost: of the oldest messages, or of this one where the disk does not take it.
  uint64_t put(const Message& message);
  struct Front {
    uint64_t number = 0, items = 0;
    std::optional<Message> message;  ///< empty: it cannot be read any more
  };
  /// The oldest one; it stays. Empty: there is none.
  std::optional<Front> front() const;
  /// Removes the message of that number, if it is still there.
  void remove(uint64_t number);

  uint64_t bytes() const;
  uint64_t items() const;

 private:
  struct Entry {
    uint64_t number = 0, items = 0, bytes = 0;
    std::string kind;
  };
  std::string pathOf(const Entry& entry) const;
  uint64_t removeFront();

  std::string folder_;
  uint64_t most_bytes_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<Entry> entries_;
  uint64_t next_ = 0, bytes_ = 0, items_ = 0;
};

}  // namespace tracesmith::sink
