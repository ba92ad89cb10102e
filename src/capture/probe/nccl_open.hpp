// Events of NCCL that have begun and not ended, by handle.
// A handle is a number: the kind, the slot, and a count that distinguishes it from earlier users of the slot. NCCL only
// hands handles back, sometimes much later.
#pragma once

#include <atomic>
#include <cstdint>

namespace tracesmith::probe {

enum HandleKind : uint64_t {  // those of calls last
  kPlain = 1,
  kLaunchHandle = 2,
  kProxyHandle = 3,
  kStepHandle = 4,
  kCallHandle = 5,
  kGroupHandle = 6,     // of calls; NCCL makes one for each call outside the program's own groups
  kOwnGroupHandle = 7,  // the same, made by the program
};
constexpr int kKindBits = 3, kSlotBits = 14, kStepBits = 4;  // of a handle, from the lowest on; the rest counts

inline HandleKind kindOf(uint64_t handle) { return static_cast<HandleKind>(handle & ((1u << kKindBits) - 1)); }
inline void* asHandle(uint64_t h) { return reinterpret_cast<void*>(static_cast<uintptr_t>(h)); }
inline uint64_t fromHandle(const void* h) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(h)); }

/// A call of the program, or a group of them. It is all in the handle: NCCL gives it as parent with each replay of a
/// graph, long after the call.
struct Call {
  HandleKind kind = kCallHandle;
  bool captured = false;  // into a CUDA graph
  // In its communicator; of a group in the process; of one that was captured its id among those (graphs.hpp).
  uint64_t number = kNoNumber;
  uint32_t stack = 0;    // string id of who called; 0: none
  bool grouped = false;  // the number is that of its group: a send or receive that is not captured has none yet

  static constexpr int kNumberBits = 37, kStackBits = 22;
  static constexpr uint64_t kNoNumber = (1ull << kNumberBits) - 1;
};
constexpr int kStackStep = 8;  // ids of strings are multiples of it
static_assert(kKindBits + 2 + Call::kNumberBits + Call::kStackBits == 64);
inline uint64_t handleOf(const Call& c) {
  uint64_t stack = c.stack / kStackStep;
  if (stack >> Call::kStackBits || c.stack % kStackStep) stack = 0;
  return stack << (kKindBits + 2 + Call::kNumberBits) | (c.number & Call::kNoNumber) << (kKindBits + 2) |
         static_cast<uint64_t>(c.grouped) << (kKindBits + 1) | static_cast<uint64_t>(c.captured) << kKindBits | c.kind;
}
/// What the handle of a call or group says; empty for other handles.
inline Call callOf(uint64_t handle) {
  if (kindOf(handle) < kCallHandle) return {};
  return {kindOf(handle), (handle >> kKindBits & 1) != 0, handle >> (kKindBits + 2) & Call::kNoNumber,
          static_cast<uint32_t>(handle >> (kKindBits + 2 + Call::kNumberBits)) * kStackStep,
          (handle >> (kKindBits + 1) & 1) != 0};
}

template <typename T, uint32_t kSlots, HandleKind kKind>
class Open {
  static_assert(kSlots <= 1u << kSlotBits);

 public:
  /// 0 if there is no slot left.
  uint64_t begin(const T& value) {
    uint32_t i = next_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t n = 0; n < kSlots; ++n, ++i) {
      Slot& slot = slots_[i % kSlots];
      uint64_t free = 0;
      if (slot.handle.load(std::memory_order_relaxed) != 0 ||
          !slot.handle.compare_exchange_strong(free, kBusy, std::memory_order_acquire))
        continue;
      slot.value = value;
      const uint64_t handle =
          ++slot.count << (kKindBits + kSlotBits + kStepBits) | static_cast<uint64_t>(i % kSlots) << kKindBits | kKind;
      slot.handle.store(handle, std::memory_order_release);
      return handle;
    }
    return 0;
  }
  /// Calls change(value) if it has not ended. Only NCCL's proxy thread does so, with its own events.
  template <typename Change>
  bool change(uint64_t handle, Change change) {
    Slot& slot = slotOf(handle);
    uint64_t expected = handle;
    if (!slot.handle.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return false;
    change(slot.value);
    slot.handle.store(handle, std::memory_order_release);
    return true;
  }
  /// False if it has already ended, or never began.
  bool end(uint64_t handle, T& value) {
    Slot& slot = slotOf(handle);
    if (!slot.handle.compare_exchange_strong(handle, kBusy, std::memory_order_acquire)) return false;
    value = slot.value;
    slot.handle.store(0, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint64_t kBusy = ~0ull;
  struct Slot {
    std::atomic<uint64_t> handle{0};
    uint64_t count = 0;
    T value{};
  };
  Slot& slotOf(uint64_t handle) { return slots_[(handle >> kKindBits & ((1u << kSlotBits) - 1)) % kSlots]; }

  Slot slots_[kSlots];
  std::atomic<uint32_t> next_{0};
};

}  // namespace tracesmith::probe
