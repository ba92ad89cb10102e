// All strings of a trace under one numbering, whatever stream of the file they come from.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracesmith/trace/reader.hpp"

namespace tracesmith::trace {

constexpr uint32_t kNoName = UINT32_MAX;

/// The texts are the reader's: valid until its next refresh(). Read by several threads.
class NameNumbers {
 public:
  /// `before`: of the same trace when it was shorter; its numbers stay.
  static Result<NameNumbers> load(const Reader& reader, const NameNumbers* before = nullptr);

  /// Numbers by id, for the strings of one stream of the file.
  const std::vector<uint32_t>& stream(uint32_t stream) const { return streams_.at(stream); }
  /// Number of a Str slot: kNoName for NULL.
  uint32_t of(uint32_t stream, int64_t slot) const {
    const std::vector<uint32_t>& numbers = streams_.at(stream);
    return slot >= 0 && static_cast<size_t>(slot) < numbers.size() ? numbers[static_cast<size_t>(slot)] : kNoName;
  }
  /// Empty for kNoName.
  std::string_view text(uint32_t name) const { return name < texts_.size() ? texts_[name] : std::string_view(); }
  size_t size() const { return texts_.size(); }

 private:
  std::map<uint32_t, std::vector<uint32_t>> streams_;
  std::vector<std::string_view> texts_;
};

}  // namespace tracesmith::trace
