// How to get from a place in a function to its caller, as its unwind table says: read once for each place, and kept in
// a form that takes nanoseconds to follow. libdw interprets the tables anew for each frame, which takes microseconds.
#pragma once

#if __has_include(<elfutils/libdwfl.h>)

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "process/libdw.hpp"
#include "process/stopped.hpp"

namespace tracesmith::process {

class UnwindRules {
 public:
  UnwindRules(const Dw& dw, Dwfl* dwfl) : dw_(dw), dwfl_(dwfl) {}

  /// Appends the places of the frames, the innermost first, `most` of them at most, as libdw would. False: it needs
  /// more than these rules (no table, an expression, the frame of a signal); what was appended is worth nothing.
  bool walk(const Snapshot& snapshot, std::vector<uint64_t>& places, size_t most, bool& complete);

 private:
  /// By their DWARF numbers: those that functions keep for their callers, the stack pointer, the program counter.
  static constexpr size_t kRegistersKept = 17;
  static constexpr int32_t kSame = INT32_MIN, kLost = INT32_MIN + 1;  // in place of an offset
  struct Rule {
    enum class Kind : uint8_t { caller, outermost, other } kind = Kind::other;
    uint8_t base = 0;    // register from which the frame's address is counted
    int32_t offset = 0;  // of the frame's address
    int32_t return_at = 0;
    std::array<int32_t, 6> kept{};  // where the registers are that the function keeps: from the frame's address
  };
  const Rule& ruleAt(uint64_t place);
  Rule read(uint64_t place) const;
  bool readRegister(Dwarf_Frame* frame, int number, int32_t& at) const;

  const Dw& dw_;
  Dwfl* const dwfl_;
  std::unordered_map<uint64_t, Rule> rules_;
};

}  // namespace tracesmith::process

#endif
