// Communicators of this process, and the numbers of their operations. All operations are counted, whoever records since
// when: so that the numbers are the same on all ranks.
#pragma once

#include <atomic>
#include <cstdint>

namespace tracesmith::probe {

/// One communicator of this process. Never freed: callbacks may come late. One that was finalized is reused when
/// no other is left.
struct Comm {
  enum State : int { kFree, kUsed, kFinal };
  std::atomic<int> state;
  uint64_t hash;
  int rank, ranks;
  std::atomic<uint32_t>* numbers;  // of sends and receives, by peer: NCCL has no numbers for them
  int peers;
  std::atomic<uint64_t> collectives;  // called so far; NCCL's own numbers count each function by itself
  static constexpr uint32_t kLately = 256;
  std::atomic<uint64_t> groups[kLately];  // of the last collectives: number << 32 | group of calls
};
extern Comm g_any_comm;  // stands for those that found no slot: their operations are recorded without a communicator

/// nullptr if there is none left.
Comm* takeComm();
/// All counts from 0, when its ranks are known. They stay mapped: callbacks may come late.
void startNumbers(Comm& comm);
/// The n-th send to a peer is its n-th receive from us. ring::kUnknown if it cannot be counted.
uint64_t numberOf(Comm& comm, const char* function, int peer);
/// The next collective of a communicator. All its ranks call them in one order. Call::kNoNumber if it has none.
uint64_t nextNumber(Comm& comm);
/// The group of calls that a collective is in, by its number, for as long as NCCL may take to tell of it. 0: not known.
void setGroup(Comm& comm, uint64_t number, uint32_t group);
uint32_t groupOf(const Comm& comm, uint64_t number);

}  // namespace tracesmith::probe
