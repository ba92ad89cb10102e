// A receiver of metrics outside, in its protocol. Everything that all of them need (a queue on disk, when to try again,
// counting what was lost) is in sender.hpp; here is only what differs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/metric_set.hpp"
#include "sink/options.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::sink {

/// A stretch of time of a rank: a step, or a collective in it. Ids are made from what it is, so that one that is sent
/// twice is recognized.
struct Span {
  using Value = std::variant<std::string, int64_t>;
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> id{}, parent_id{};  ///< all 0: it has no parent
  std::string node, name;
  int64_t start_ns = 0, end_ns = 0;  ///< Unix time
  std::vector<std::pair<std::string, Value>> attributes;
};

/// What is sent at once.
struct Message {
  std::string kind;    ///< what the sink wants to know of it when it sends it: one word
  uint64_t items = 0;  ///< values or spans in it
  std::string body;
};

struct Delivery {
  enum class Outcome { sent, later, refused };
  Outcome outcome = Outcome::sent;
  uint64_t rejected = 0;  ///< of a message that was sent: items that the receiver did not take
  std::string problem;    ///< one sentence; empty: none
};

/// metrics() and spans() are called by one thread, send() by another, cancel() by any.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual const char* name() const = 0;
  virtual std::string address() const = 0;
  virtual std::vector<Message> metrics(const MetricSet& metrics, int64_t unix_ns) = 0;
  virtual bool takesSpans() const { return false; }
  virtual std::vector<Message> spans(std::span<const Span> spans) {
    (void)spans;
    return {};
  }
  /// Waits for the receiver some seconds at most.
  virtual Delivery send(const Message& message) = 0;
  /// Whether what was not sent now may be sent later. Where values have no time it may not.
  virtual bool lasting() const { return true; }
  /// Ends a send() that waits.
  virtual void cancel() {}
};

Result<std::unique_ptr<Sink>> makeRemoteWrite(const Options& options);
Result<std::unique_ptr<Sink>> makeInflux(const Options& options);
Result<std::unique_ptr<Sink>> makeOtlp(const Options& options);
Result<std::unique_ptr<Sink>> makeStatsd(const Options& options);

}  // namespace tracesmith::sink
