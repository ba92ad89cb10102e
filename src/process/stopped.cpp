#include "process/stopped.hpp"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.hpp"

namespace tracesmith::process {
namespace {

/// How long to wait for one thread to stop (on a busy machine it first needs a processor), and for all of them
/// together.
constexpr int64_t kPatienceNs = 100'000'000, kAllPatienceNs = 400'000'000, kLeastPatienceNs = 1'000'000;
/// Between two looks whether a thread has stopped: at first, and at last, where it waits for a processor.
constexpr int64_t kFirstPauseNs = 10'000, kLastPauseNs = 500'000;
constexpr size_t kPage = 4096;

#if defined(__x86_64__)
constexpr uint64_t kRedZone = 128;
void setRegisters(const user_regs_struct& r, Snapshot& s, uint64_t& sp) {
  s.registers = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                 r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
  s.pc = r.rip;
  s.system_call = static_cast<int64_t>(r.orig_rax);
  sp = r.rsp;
}
#elif defined(__aarch64__)
constexpr uint64_t kRedZone = 0;
void setRegisters(const user_regs_struct& r, Snapshot& s, uint64_t& sp) {
  std::copy(std::begin(r.regs), std::end(r.regs), s.registers.begin());
  s.registers[31] = r.sp;
  s.pc = r.pc;
  sp = r.sp;
}
#endif

/// From `begin` to the end of what is mapped there, as far as `room` goes. Returns how much it was.
size_t copyStack(pid_t pid, uint64_t begin, std::string& room) {
  iovec local{room.data(), room.size()};
  iovec pages[kMostStackBytes / kPage + 1];
  size_t count = 0;
  for (uint64_t at = begin, end = begin + room.size(); at < end; ++count) {
    const uint64_t next = std::min(end, (at / kPage + 1) * kPage);
    pages[count] = {reinterpret_cast<void*>(at), next - at};
    at = next;
  }
  const ssize_t got = ::process_vm_readv(pid, &local, 1, pages, count, 0);
  return got > 0 ? static_cast<size_t>(got) : 0;
}

#if defined(__x86_64__) || defined(__aarch64__)
/// Returns how much of the stack there was.
size_t copyFrom(pid_t pid, const user_regs_struct& registers, std::string& room, Snapshot& snapshot) {
  uint64_t sp = 0;
  setRegisters(registers, snapshot, sp);
  snapshot.stack_pointer = sp;
  snapshot.stack_begin = sp - kRedZone;
  return copyStack(pid, snapshot.stack_begin, room);
}

/// Waits until the thread has stopped. `signal`: what it was about to receive, and must still get. `since`: when it was
/// last seen not to stand still.
bool waitForStop(pid_t tid, int64_t patience_ns, int& signal, int64_t& since) {
  signal = 0;
  const int64_t begin_ns = since, deadline_ns = since + patience_ns;
  for (;;) {
    int status = 0;
    const int64_t now = rawClock();
    const pid_t found = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (found < 0 && errno != EINTR) return false;
    if (found == tid) {
      if (!WIFSTOPPED(status)) return false;
      if (status >> 16 == 0) signal = WSTOPSIG(status);
      return true;
    }
    if (now > deadline_ns) return false;
    since = now;
    // Asleep: the thread may need this very processor to come to a stop. At most a fifth is added to the wait.
    const timespec moment{0, std::clamp((now - begin_ns) / 4, kFirstPauseNs, kLastPauseNs)};
    ::nanosleep(&moment, nullptr);
  }
}

/// Returns 0, or the errno of what was refused; EAGAIN: it did not stop in time and is let go when the tracing thread
/// ends, which must be at once.
int take(pid_t pid, pid_t tid, int64_t patience_ns, const std::function<void()>& while_stopped, std::string& room,
         Snapshot& snapshot) {
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return errno;
  int64_t since = rawClock();
  int signal = 0;
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 || !waitForStop(tid, patience_ns, signal, since))
    return EAGAIN;
  user_regs_struct registers{};
  size_t copied = 0;
  iovec vector{&registers, sizeof registers};
  if (::ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &vector) == 0) {
    copied = copyFrom(pid, registers, room, snapshot);
    while_stopped();
    snapshot.taken = true;
  }
  ::ptrace(PTRACE_DETACH, tid, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(signal)));
  snapshot.stopped_ns = rawClock() - since;
  snapshot.stack.assign(room, 0, copied);
  return 0;
}
#endif

}  // namespace

#if defined(__x86_64__)
const unsigned kRegisters = 17;
#elif defined(__aarch64__)
const unsigned kRegisters = 32;
#else
const unsigned kRegisters = 0;
#endif

#if defined(__x86_64__) || defined(__aarch64__)
void fillSnapshot(pid_t pid, const user_regs_struct& registers, Snapshot& snapshot) {
  snapshot.stack.resize(kMostStackBytes);
  snapshot.stack.resize(copyFrom(pid, registers, snapshot.stack, snapshot));
  snapshot.taken = true;
}
#endif

Result<std::vector<Snapshot>> Stopper::snapshots(pid_t pid, const std::vector<Task>& tasks,
                                                 const std::function<void(size_t task)>& while_stopped) {
  std::vector<Snapshot> all(tasks.size());
  int refused = 0;
#if defined(__x86_64__) || defined(__aarch64__)
  room_.resize(kMostStackBytes);  // touched before any thread stands still
  int64_t patience_left_ns = kAllPatienceNs;
  const auto trace = [&](size_t& next) {
    // A thread stands still for as long as this one is not given a processor. Where it is not permitted, it does
    // without.
    const sched_param first{.sched_priority = 1};
    if (::sched_setscheduler(0, SCHED_RR, &first) != 0) (void)::setpriority(PRIO_PROCESS, 0, -20);
    (void)::prctl(PR_SET_TIMERSLACK, 1);
    while (next < tasks.size() && refused == 0) {
      const size_t i = next++;
      if (tasks[i].state == 'Z') continue;
      const int64_t begin = rawClock();
      const int error = take(
          pid, tasks[i].tid, std::clamp(patience_left_ns, kLeastPatienceNs, kPatienceNs), [&] { while_stopped(i); },
          room_, all[i]);
      patience_left_ns -= rawClock() - begin;
      if (error == EPERM || error == EACCES) refused = error;
      if (error == EAGAIN) return;
    }
  };
  // Who traces is a thread: whatever happens here, all are let go when it ends.
  for (size_t next = 0; next < tasks.size() && refused == 0;) std::thread(trace, std::ref(next)).join();
#else
  refused = ENOSYS;
#endif
  if (refused == ENOSYS) return Status::unsupported("native frames cannot be read on this architecture");
  if (refused != 0) {
    const bool traced = std::any_of(tasks.begin(), tasks.end(), [](const Task& t) { return t.state == 't'; });
    if (traced) return Status::busy("a debugger has process " + std::to_string(pid) + ": end it first");
    return notPermitted(pid, "stopping threads of");
  }
  return all;
}

}  // namespace tracesmith::process
