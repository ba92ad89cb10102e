// Status and Result<T>: how everything in TraceSmith reports failure of the outside world.
// A message is one sentence a user can act on; it names the file and offset where there is one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace tracesmith {

/// What callers tell apart. gRPC and HTTP have a table each that says which of their own codes it becomes.
enum class Code {
  kOk,
  kInvalid,          ///< what was asked makes no sense, or not now
  kNotFound,         ///< there is no such thing
  kCorrupt,          ///< a file or message is damaged
  kIo,               ///< the system refused: disk, permissions, network
  kUnsupported,      ///< this build, machine or version cannot do it
  kExhausted,        ///< memory or another limit does not suffice
  kBusy,             ///< others are at it: the same may succeed later
  kTimeout,          ///< it took too long
  kCancelled,        ///< somebody stopped it
  kUnavailable,      ///< the other side cannot be reached, or is about to go
  kUnauthenticated,  ///< nobody knows who asks
  kForbidden,        ///< it is known who asks, and they may not
};
constexpr size_t kCodes = 13;

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status invalid(std::string m) { return {Code::kInvalid, std::move(m)}; }
  static Status notFound(std::string m) { return {Code::kNotFound, std::move(m)}; }
  static Status corrupt(std::string m) { return {Code::kCorrupt, std::move(m)}; }
  static Status io(std::string m) { return {Code::kIo, std::move(m)}; }
  static Status unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
  static Status exhausted(std::string m) { return {Code::kExhausted, std::move(m)}; }
  static Status busy(std::string m) { return {Code::kBusy, std::move(m)}; }
  static Status timeout(std::string m) { return {Code::kTimeout, std::move(m)}; }
  static Status cancelled(std::string m) { return {Code::kCancelled, std::move(m)}; }
  static Status unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
  static Status unauthenticated(std::string m) { return {Code::kUnauthenticated, std::move(m)}; }
  static Status forbidden(std::string m) { return {Code::kForbidden, std::move(m)}; }

  bool ok() const { return code_ == Code::kOk; }
  explicit operator bool() const { return ok(); }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tracesmith

// Leaves the enclosing function with the status of `expr` unless it is ok.
#define TS_TRY(expr)                                                              \
  do {                                                                            \
    if (::tracesmith::Status ts_status_ = (expr); !ts_status_) return ts_status_; \
  } while (0)
