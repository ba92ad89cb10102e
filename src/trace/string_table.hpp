// Strings of a writer and their ids. Bounded: past a limit it forgets which strings it knows (their ids stay good on
// disk), and a string seen again gets a second id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::trace {

class StringTable {
 public:
  explicit StringTable(size_t max_bytes = 32u << 20) : max_bytes_(max_bytes), slots_(1024) {}

  int64_t intern(std::string_view s);

  /// Strings not yet handed out by takeNew: ids first…first + lengths.size() − 1.
  struct New {
    int64_t first = 0;
    std::vector<uint64_t> lengths;
    std::string bytes;
  };
  bool hasNew() const { return !new_.lengths.empty(); }
  size_t newBytes() const { return new_.bytes.size(); }
  New takeNew();

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t offset = 0, length = 0;
    int64_t id = -1;
  };
  void grow();

  size_t max_bytes_;
  std::string bytes_;  // of all known strings
  std::vector<Slot> slots_;
  size_t used_ = 0;
  int64_t next_id_ = 0;
  New new_;
};

}  // namespace tracesmith::trace
