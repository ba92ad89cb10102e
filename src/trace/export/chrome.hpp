// The parts of a Chrome trace as Kineto writes it.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "trace/export/names.hpp"
#include "trace/export/row_source.hpp"

namespace tracesmith::trace {

/// Kineto's category of an event type.
const char* chromeCategory(EventType type);

/// Times are written in µs after this many ns. 0 unless times are so large that readers which take numbers as doubles
/// would lose nanoseconds; then the same for all traces of about eleven days, so that files of one job agree.
int64_t chromeBaseNs(const Reader& reader);
/// Appends ns as µs with three decimals: exact.
void appendMicroseconds(std::string& out, int64_t ns);

/// Everything before the first event, from "{" to "\"traceEvents\":[".
/// `rank`: the only rank that is exported, or kNull if there are several or none.
Status appendChromeHeader(std::string& out, const Reader& reader, int64_t rank, int64_t base_ns);

/// Members of a JSON object without its braces, for use inside another object. Empty if it is no valid object.
class ChromeArgs {
 public:
  ChromeArgs();
  ~ChromeArgs();
  /// Looks at the args of a row; false if they are no JSON object.
  bool parse(std::string_view json);
  /// Whether the object parsed last has this member.
  bool has(std::string_view key) const;
  /// Its members, or empty.
  std::string_view members() const { return members_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string_view members_;
};

/// Numbers of processes in the file. Kineto uses the process id for host rows and the device index for device rows;
/// with several ranks in one file these would meet, so each process and each GPU of each rank gets a number of its own.
class ChromePids {
 public:
  explicit ChromePids(bool several) : several_(several) {}
  /// `first` is set if this process was not seen before.
  int64_t host(std::string_view node, int64_t rank, int64_t pid, bool& first) {
    return number({node, rank, pid, kNull}, pid, first);
  }
  int64_t device(std::string_view node, int64_t rank, int64_t pid, int64_t device, bool& first) {
    return number({node, rank, several_ ? pid : kNull, device}, device, first);
  }

 private:
  using Key = std::tuple<std::string_view, int64_t, int64_t, int64_t>;
  int64_t number(const Key& key, int64_t own, bool& first);
  bool several_;
  std::map<Key, int64_t> numbers_;
};

}  // namespace tracesmith::trace
