#include "capture/ring/mapping_guard.hpp"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <mutex>

namespace tracesmith::ring {

/// Slots are used again and never freed: a handler may walk the list at any moment, in any thread.
struct GuardedMapping::Slot {
  std::atomic<char*> base{nullptr};  // null: free
  std::atomic<size_t> bytes{0};
  std::atomic<bool> cut{false};
  Slot* next = nullptr;
};

namespace {

std::mutex g_mutex;  // guards who takes a slot
std::atomic<GuardedMapping::Slot*> g_slots{nullptr};
struct sigaction g_before;

/// Only what a handler may call.
void onFault(int signal, siginfo_t* info, void* context) {
  const auto* address = static_cast<const char*>(info->si_addr);
  for (GuardedMapping::Slot* slot = g_slots.load(); slot; slot = slot->next) {
    char* base = slot->base.load();
    if (!base || address < base || address >= base + slot->bytes.load()) continue;
    const int saved = errno;
    slot->cut.store(true);
    void* empty = ::mmap(base, slot->bytes.load(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (empty != MAP_FAILED) return;  // the read is done again, and finds zeros
  }
  if (g_before.sa_flags & SA_SIGINFO) return g_before.sa_sigaction(signal, info, context);
  if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) return g_before.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the fault happens again, and ends the process as it would have
}

}  // namespace

void surviveCutRings() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = onFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &g_before);
  });
}

GuardedMapping::GuardedMapping(void* base, size_t bytes) {
  std::lock_guard lock(g_mutex);
  slot_ = g_slots.load();
  while (slot_ && slot_->base.load()) slot_ = slot_->next;
  const bool fresh = !slot_;
  if (fresh) {
    slot_ = new Slot();
    slot_->next = g_slots.load();
  }
  slot_->cut = false;
  slot_->bytes = bytes;
  slot_->base = static_cast<char*>(base);
  if (fresh) g_slots = slot_;
}

GuardedMapping::~GuardedMapping() { slot_->base = nullptr; }

bool GuardedMapping::cut() const { return slot_->cut.load(std::memory_order_relaxed); }

}  // namespace tracesmith::ring
