#include "process/unwind_rules.hpp"

#if __has_include(<elfutils/libdwfl.h>)

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tracesmith::process {
namespace {

constexpr size_t kMostRules = 1 << 20;  // of one process: beyond it they are read anew

#if defined(__x86_64__)
constexpr bool kHere = true;
constexpr size_t kStackPointer = 7, kReturn = 16;
constexpr std::array<size_t, 6> kKept = {3, 6, 12, 13, 14, 15};  // rbx, rbp, r12 to r15
#else
constexpr bool kHere = false;  // elsewhere libdw does it
constexpr size_t kStackPointer = 0, kReturn = 0;
constexpr std::array<size_t, 6> kKept = {};
#endif

bool readWord(const Snapshot& s, uint64_t address, uint64_t& word) {
  const uint64_t at = address - s.stack_begin;
  if (at >= s.stack.size() || s.stack.size() - at < sizeof word) return false;
  std::memcpy(&word, s.stack.data() + at, sizeof word);
  return true;
}

bool isOffset(Dwarf_Word number, int32_t& offset) {
  const auto n = static_cast<int64_t>(number);
  offset = static_cast<int32_t>(n);
  return n == offset && n > INT32_MIN + 1;
}

}  // namespace

bool UnwindRules::walk(const Snapshot& s, std::vector<uint64_t>& places, size_t most, bool& complete) {
  if (!kHere) return false;
  complete = false;
  std::array<uint64_t, kRegistersKept> registers{};
  std::copy_n(s.registers.begin(), registers.size(), registers.begin());
  uint32_t known = (1u << kRegistersKept) - 1;
  uint64_t pc = s.pc;
  for (bool innermost = true;; innermost = false) {
    const uint64_t place = innermost ? pc : pc - 1;
    places.push_back(place);
    if (places.size() >= most) return true;
    const Rule& rule = ruleAt(place);
    if (rule.kind == Rule::Kind::other || (known >> rule.base & 1) == 0) return false;
    if (rule.kind == Rule::Kind::outermost) return complete = true;
    const uint64_t frame = registers[rule.base] + static_cast<uint64_t>(int64_t{rule.offset});
    uint64_t caller = 0;
    if (!readWord(s, frame + static_cast<uint64_t>(int64_t{rule.return_at}), caller)) return true;  // was not copied
    if (caller == 0) return complete = true;
    uint32_t still = 1u << kStackPointer | 1u << kReturn;
    for (size_t i = 0; i < kKept.size(); ++i) {
      const uint32_t bit = 1u << kKept[i];
      if (rule.kept[i] == kSame)
        still |= known & bit;
      else if (rule.kept[i] != kLost &&
               readWord(s, frame + static_cast<uint64_t>(int64_t{rule.kept[i]}), registers[kKept[i]]))
        still |= bit;
    }
    known = still;
    registers[kStackPointer] = frame;
    registers[kReturn] = pc = caller;
  }
}

const UnwindRules::Rule& UnwindRules::ruleAt(uint64_t place) {
  if (const auto known = rules_.find(place); known != rules_.end()) return known->second;
  if (rules_.size() >= kMostRules) rules_.clear();
  return rules_[place] = read(place);
}

/// Where a register of the caller is: an offset, kSame or kLost. False: it takes more than that to tell.
bool UnwindRules::readRegister(Dwarf_Frame* frame, int number, int32_t& at) const {
  Dwarf_Op room[3];
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dw_.dwarf_frame_register(frame, number, room, &ops, &count) != 0) return false;
  if (count == 0) {
    at = ops == nullptr ? kSame : kLost;
    return true;
  }
  if (ops[0].atom != DW_OP_call_frame_cfa || count > 2) return false;
  at = 0;
  return count == 1 || (ops[1].atom == DW_OP_plus_uconst && isOffset(ops[1].number, at));
}

UnwindRules::Rule UnwindRules::read(uint64_t place) const {
  const Rule other;
  Dwfl_Module* module = dw_.dwfl_addrmodule(dwfl_, place);
  Dwarf_Addr bias = 0;
  Dwarf_CFI* table = module ? dw_.dwfl_module_eh_cfi(module, &bias) : nullptr;
  Dwarf_Frame* found = nullptr;
  if (!table || dw_.dwarf_cfi_addrframe(table, place - bias, &found) != 0) return other;
  const std::unique_ptr<Dwarf_Frame, void (*)(Dwarf_Frame*)> frame(found, [](Dwarf_Frame* f) { std::free(f); });
  Dwarf_Addr begin = 0, end = 0;
  bool signal = false;
  if (dw_.dwarf_frame_info(found, &begin, &end, &signal) != static_cast<int>(kReturn) || signal) return other;
  Rule rule;
  if (!readRegister(found, static_cast<int>(kReturn), rule.return_at) || rule.return_at == kSame) return other;
  if (rule.return_at == kLost) {
    rule.kind = Rule::Kind::outermost;
    rule.base = kStackPointer;
    return rule;
  }
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dw_.dwarf_frame_cfa(found, &ops, &count) != 0 || count != 1 || ops[0].atom != DW_OP_bregx ||
      ops[0].number >= kReturn || !isOffset(ops[0].number2, rule.offset))
    return other;
  rule.base = static_cast<uint8_t>(ops[0].number);
  for (size_t i = 0; i < kKept.size(); ++i)
    if (!readRegister(found, static_cast<int>(kKept[i]), rule.kept[i])) return other;
  rule.kind = Rule::Kind::caller;
  return rule;
}

}  // namespace tracesmith::process

#endif
