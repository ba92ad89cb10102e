// The args of an event: members that have a column, and the JSON text of all others.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "trace/import/chrome_event.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {

/// Builds a JSON object at the end of `out` from slices of other JSON text.
class ArgsText {
 public:
  explicit ArgsText(std::string& out) : out_(out), begin_(out.size()) {}

  /// A member as it stands in its source. Neighbours are copied together.
  void member(const JsonMember& m);
  /// A member made here; `json` is its value.
  void field(std::string_view key, std::string_view json);
  /// Members as JSON text without braces, as takeMembers() gives them.
  void members(std::string_view text);

  /// Closes the object. False if it has no members; then nothing was appended.
  bool finish();
  /// Instead of finish(): takes the members back, without braces.
  std::string takeMembers();

 private:
  void flush();
  void comma() { out_ += out_.size() == begin_ ? '{' : ','; }

  std::string& out_;
  size_t begin_;
  const char* from_ = nullptr;  // slice not yet copied
  const char* to_ = nullptr;
};

/// Ids of launch shapes: few kernels differ in theirs.
class LaunchIds {
 public:
  explicit LaunchIds(Writer& writer) : writer_(writer) {}
  int64_t of(const LaunchShape& shape);

 private:
  using Numbers = std::array<int32_t, kLaunchFields>;  // -1: not known
  struct Hash {
    size_t operator()(const Numbers& numbers) const;
  };
  Writer& writer_;
  std::unordered_map<Numbers, int64_t, Hash> ids_;
};

/// Moves members of args into the columns of `row` and the rest into `rest`. Device and stream only where `on_device`:
/// on host rows they are something the call was told, not where it ran.
void takeArgs(const ChromeEvent& event, bool on_device, EventRow& row, LaunchShape& shape, ArgsText& rest);

}  // namespace tracesmith::trace
