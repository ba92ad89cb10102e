#include "capture/probe/nccl_comm.hpp"

#include <sys/mman.h>

#include "capture/probe/graphs.hpp"
#include "capture/probe/nccl_open.hpp"

namespace tracesmith::probe {
namespace {

constexpr int kMaxComms = 512;
constexpr int kUnknownRanks = 8192;  // v1–v3 do not report it; pages that are never touched take no memory
Comm g_comms[kMaxComms];

}  // namespace

Comm g_any_comm;

Comm* takeComm() {
  for (int wanted : {Comm::kFree, Comm::kFinal})
    for (Comm& comm : g_comms)
      if (int expected = wanted; comm.state.load(std::memory_order_relaxed) == wanted &&
                                 comm.state.compare_exchange_strong(expected, Comm::kUsed))
        return &comm;
  return nullptr;
}

void startNumbers(Comm& comm) {
  comm.collectives.store(0, std::memory_order_relaxed);
  for (auto& group : comm.groups) group.store(0, std::memory_order_relaxed);
  const int peers = comm.ranks > 0 ? comm.ranks : kUnknownRanks;
  const size_t bytes = 2 * static_cast<size_t>(peers) * sizeof *comm.numbers;
  if (comm.peers >= peers) {
    for (int i = 0; i < 2 * peers; ++i) comm.numbers[i].store(0, std::memory_order_relaxed);
    return;
  }
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  comm.peers = p == MAP_FAILED ? 0 : peers;  // if it failed, they have no numbers
  if (p != MAP_FAILED) comm.numbers = static_cast<std::atomic<uint32_t>*>(p);
}

uint64_t numberOf(Comm& comm, const char* function, int peer) {
  if (peer < 0 || peer >= comm.peers) return ring::kUnknown;
  const bool send = function && *function == 'S';
  return comm.numbers[2 * peer + send].fetch_add(1, std::memory_order_relaxed);
}

uint64_t nextNumber(Comm& comm) {
  if (&comm == &g_any_comm) return Call::kNoNumber;  // it stands for several
  return comm.collectives.fetch_add(1, std::memory_order_relaxed);
}

void setGroup(Comm& comm, uint64_t number, uint32_t group) {
  if (number != Call::kNoNumber) comm.groups[number % Comm::kLately].store(number << 32 | group);
}

uint32_t groupOf(const Comm& comm, uint64_t number) {
  const uint64_t word = comm.groups[number % Comm::kLately].load();
  return number != Call::kNoNumber && word >> 32 == (number & UINT32_MAX) ? static_cast<uint32_t>(word) : 0;
}

uint64_t numberReplay(void* comm, const ring::OperationRecord& o, bool send) {
  auto& c = *static_cast<Comm*>(comm);
  if (o.pair) return numberOf(c, send ? "Send" : "Recv", o.peer);
  const uint64_t number = nextNumber(c);
  return number == Call::kNoNumber ? ring::kUnknown : number;
}

}  // namespace tracesmith::probe
