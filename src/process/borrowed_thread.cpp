#include "process/borrowed_thread.hpp"

#include <unistd.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/clock.hpp"
#include "process/injected_code.hpp"
#include "process/memory.hpp"
#include "process/modules.hpp"

namespace tracesmith::process {
namespace {

namespace code = injected;

constexpr int kSyscallStop = SIGTRAP | 0x80;
constexpr int64_t kRemoteSyscallNs = 60'000'000'000, kLeaveNs = 1'000'000'000;
constexpr uint64_t kTrapFlag = 0x100, kDirectionFlag = 0x400, kAlignmentFlag = 0x40000;
// What the kernel leaves in rax of a call that was interrupted by us and is to be made again.
constexpr int64_t kRestartFirst = -516, kRestartLast = -512;

bool isMadeAgain(uint64_t call, int64_t result) {
  if (result >= kRestartFirst && result <= kRestartLast) return true;
  // The kernel does not repeat these, and programs are not used to it: nothing has been waited for yet.
  return result == -EINTR && (call == SYS_epoll_wait || call == SYS_epoll_pwait || call == SYS_epoll_pwait2);
}

/// The thread makes the call of the kernel again in which it was interrupted. The kernel would do that only if it went
/// on from this very stop.
void makeCallAgain(user_regs_struct& r) {
  if (static_cast<int64_t>(r.orig_rax) >= 0 && isMadeAgain(r.orig_rax, static_cast<int64_t>(r.rax))) {
    r.rip -= 2;  // to the instruction that called it
    // One with a time-out keeps what is left of that.
    r.rax = static_cast<int64_t>(r.rax) == kRestartFirst ? SYS_restart_syscall : r.orig_rax;
  }
  r.orig_rax = static_cast<unsigned long long>(-1);
}

void pause() {
  const timespec moment{0, 20'000};
  ::nanosleep(&moment, nullptr);
}

bool writeMemory(pid_t pid, uint64_t to, const void* from, size_t size) {
  iovec local{const_cast<void*>(from), size};
  iovec remote{reinterpret_cast<void*>(to), size};
  return ::process_vm_writev(pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

unsigned vectorBytes() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return 0;
  return __get_cpuid_count(0xd, 0, &a, &b, &c, &d) ? c : 0;
}

}  // namespace

struct BorrowedThread::State {
  pid_t pid = 0, tid = 0;
  bool stopped = false, ended = false;
  user_regs_struct registers{};
  uint64_t mask = 0;
  std::string vectors;       // as PTRACE_GETREGSET gives them
  uint64_t memory = 0;       // of ours
  uint64_t instruction = 0;  // a `syscall` of the process's own

  bool get(user_regs_struct& r) const {
    iovec to{&r, sizeof r};
    return ::ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &to) == 0;
  }
  bool set(const user_regs_struct& r) const {
    iovec from{const_cast<user_regs_struct*>(&r), sizeof r};
    return ::ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &from) == 0;
  }
  bool getMask(uint64_t& m) const {
    return ::ptrace(PTRACE_GETSIGMASK, tid, reinterpret_cast<void*>(sizeof m), &m) == 0;
  }
  bool setMask(uint64_t m) const {
    return ::ptrace(PTRACE_SETSIGMASK, tid, reinterpret_cast<void*>(sizeof m), &m) == 0;
  }
  /// 0: nothing has happened. Otherwise a status of waitpid.
  int poll() {
    int status = 0;
    const pid_t found = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return 0;
    if (found < 0 || !WIFSTOPPED(status)) {
      ended = true;
      return -1;
    }
    return status;
  }
  int wait(int64_t patience_ns) {
    const int64_t deadline = rawClock() + patience_ns;
    while (true) {
      const int status = poll();
      if (status != 0 || rawClock() > deadline) return status;
      pause();
    }
  }
  Status gone() const { return Status::notFound("process " + std::to_string(pid) + " has ended"); }
  Status stop(int64_t patience_ns);
  Result<int64_t> remoteSyscall(uint64_t number, std::array<uint64_t, 6> arguments);
  Status makeRoom(const LibraryCall& call);
  void putBack();
  Status follow(int64_t patience_ns);
  Status leave();
};

/// Stops it without a signal that is on its way getting lost.
Status BorrowedThread::State::stop(int64_t patience_ns) {
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return gone();
  const int64_t deadline = rawClock() + patience_ns;
  while (rawClock() < deadline) {
    const int status = wait(std::max<int64_t>(0, deadline - rawClock()));
    if (ended) return gone();
    if (status == 0) break;
    const int signal = WSTOPSIG(status);
    if (status >> 16 == PTRACE_EVENT_STOP) {
      if (signal != SIGTRAP)
        return Status::busy("process " + std::to_string(pid) + " is stopped: continue it first (kill -CONT " +
                            std::to_string(pid) + ")");
      stopped = true;
      return {};
    }
    const bool is_signal = status >> 16 == 0 && signal != kSyscallStop;
    ::ptrace(PTRACE_CONT, tid, nullptr, reinterpret_cast<void*>(static_cast<intptr_t>(is_signal ? signal : 0)));
  }
  return Status::busy("thread " + std::to_string(tid) + " does not stop");
}

Result<std::unique_ptr<BorrowedThread>> BorrowedThread::stop(pid_t pid, pid_t tid, int64_t patience_ns) {
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, reinterpret_cast<void*>(PTRACE_O_TRACESYSGOOD)) != 0)
    return errno == ESRCH ? Status::notFound("process " + std::to_string(pid) + " has ended")
                          : notPermitted(pid, "attaching to");
  std::unique_ptr<BorrowedThread> thread(new BorrowedThread());
  thread->state_ = std::make_unique<State>();
  State& s = *thread->state_;
  s.pid = pid;
  s.tid = tid;
  TS_TRY(s.stop(patience_ns));
  if (!s.get(s.registers) || !s.getMask(s.mask)) return s.gone();
  s.vectors.resize(64 << 10);
  iovec vectors{s.vectors.data(), s.vectors.size()};
  if (::ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_X86_XSTATE), &vectors) != 0) return s.gone();
  s.vectors.resize(vectors.iov_len);
  fillSnapshot(pid, s.registers, thread->snapshot_);
  makeCallAgain(s.registers);
  return thread;
}

BorrowedThread::~BorrowedThread() {
  if (!state_ || !state_->stopped || state_->ended) return;
  ::ptrace(PTRACE_DETACH, state_->tid, nullptr, nullptr);
}

/// Made by the thread at an instruction of the process's own: nothing of it is changed for that, and no lock is needed.
Result<int64_t> BorrowedThread::State::remoteSyscall(uint64_t number, std::array<uint64_t, 6> arguments) {
  user_regs_struct r = registers;
  r.rip = instruction;
  r.rax = number;
  r.orig_rax = static_cast<unsigned long long>(-1);
  r.rdi = arguments[0];
  r.rsi = arguments[1];
  r.rdx = arguments[2];
  r.r10 = arguments[3];
  r.r8 = arguments[4];
  r.r9 = arguments[5];
  r.eflags &= ~kTrapFlag;
  if (!set(r)) return gone();
  for (int stops = 0; stops < 2;) {  // at its begin and at its end
    if (::ptrace(PTRACE_SYSCALL, tid, nullptr, nullptr) != 0) return gone();
    const int status = wait(kRemoteSyscallNs);
    if (ended) return gone();
    if (status == 0) {
      stopped = false;
      return Status::timeout("thread " + std::to_string(tid) + " does not answer");
    }
    if (status >> 16 == 0 && WSTOPSIG(status) == kSyscallStop)
      ++stops;
    else if (status >> 16 == 0)
      return Status::forbidden("the process received signal " + std::to_string(WSTOPSIG(status)) +
                               " for a system call: a filter forbids it");
  }
  if (!get(r)) return gone();
  return static_cast<int64_t>(r.rax);
}

/// Memory with the code and all that it needs.
Status BorrowedThread::State::makeRoom(const LibraryCall& call) {
  const Result<int64_t> at = remoteSyscall(SYS_mmap, {0, code::kCodeBytes + code::kDataBytes, PROT_READ | PROT_WRITE,
                                                      MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0});
  if (!at) return at.status();
  if (*at < 0 && *at > -4096)
    return Status::exhausted(std::string("the process cannot get memory: ") + std::strerror(static_cast<int>(-*at)));
  memory = static_cast<uint64_t>(*at);
  const user_regs_struct& r = registers;
  const code::Popped popped = {r.eflags, r.r15, r.r14, r.r13, r.r12, r.r11, r.r10, r.r9,
                               r.r8,     r.rdi, r.rsi, r.rbp, r.rdx, r.rcx, r.rbx, r.rax};
  const uint64_t data = memory + code::kCodeBytes;
  const auto put = [&](code::Place place, const void* from, size_t size) {
    return writeMemory(pid, data + place, from, size);
  };
  const auto word = [&](code::Place place, uint64_t value) { return put(place, &value, sizeof value); };
  const std::string text = code::code(memory);
  if (!writeMemory(pid, memory, text.data(), text.size()) || !word(code::kDlopen, call.dlopen) ||
      !word(code::kDlsym, call.dlsym) || !word(code::kDlerror, call.dlerror) || !word(code::kMask, mask) ||
      !word(code::kStack, r.rsp) || !word(code::kNext, r.rip) ||
      !put(code::kPath, call.library.c_str(), call.library.size() + 1) ||
      !put(code::kName, call.function.c_str(), call.function.size() + 1) ||
      !put(code::kArgument, call.argument.c_str(), call.argument.size() + 1) ||
      !put(code::kRegisters, &popped, sizeof popped))
    return Status::io("the memory of process " + std::to_string(pid) + " cannot be written");
  const Result<int64_t> done = remoteSyscall(SYS_mprotect, {memory, code::kCodeBytes, PROT_READ | PROT_EXEC, 0, 0, 0});
  if (!done) return done.status();
  return *done == 0 ? Status() : Status::forbidden("the system forbids new code in process " + std::to_string(pid));
}

/// Everything as it was, without the help of the code. Where it stands must not matter any more.
void BorrowedThread::State::putBack() {
  if (ended || !stopped) return;
  if (memory != 0) (void)remoteSyscall(SYS_munmap, {memory, code::kCodeBytes + code::kDataBytes, 0, 0, 0, 0});
  memory = 0;
  if (ended || !stopped) return;
  iovec from{vectors.data(), vectors.size()};
  ::ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(NT_X86_XSTATE), &from);
  set(registers);
  setMask(mask);
}

/// Lets it run until the calls have returned.
Status BorrowedThread::State::follow(int64_t patience_ns) {
  const int64_t deadline = rawClock() + patience_ns;
  ProcessMemory reader(pid);
  if (::ptrace(PTRACE_CONT, tid, nullptr, nullptr) != 0) return gone();
  stopped = false;
  while (true) {
    const int status = poll();
    if (ended) return gone();
    const std::optional<uint32_t> stage = reader.get<uint32_t>(memory + code::kCodeBytes + code::kStage);
    if (status != 0) {
      const int signal = WSTOPSIG(status);
      const bool group = status >> 16 == PTRACE_EVENT_STOP;
      if (!group && status >> 16 == 0 && stage == code::kCalling) {
        stopped = true;  // all others are blocked: it crashed
        return Status::io("the call failed with signal " + std::to_string(signal) + " (" + ::strsignal(signal) +
                          "), the process goes on");
      }
      ::ptrace(group && signal != SIGTRAP ? PTRACE_LISTEN : PTRACE_CONT, tid, nullptr,
               reinterpret_cast<void*>(static_cast<intptr_t>(group ? 0 : signal)));
    } else if (stage && *stage == code::kSignalsAreBack) {
      return {};
    } else if (rawClock() > deadline) {
      return Status::timeout("the process did not load the library in time; thread " + std::to_string(tid) +
                             " goes on by itself once it has");
    } else {
      pause();
    }
  }
}

/// Takes our memory away, once the thread has left it.
Status BorrowedThread::State::leave() {
  const int64_t deadline = rawClock() + kLeaveNs;
  const uint64_t begin = memory, end = begin + code::kCodeBytes + code::kDataBytes;
  while (rawClock() < deadline) {
    if (Status s = stop(kLeaveNs); !s) return s;
    if (!get(registers) || !getMask(mask)) return gone();
    makeCallAgain(registers);
    const auto inside = [&](uint64_t at) { return at >= begin && at < end; };
    if (!inside(registers.rip) && !inside(registers.rsp)) {
      setMask(~uint64_t{0});
      const Result<int64_t> done = remoteSyscall(SYS_munmap, {begin, end - begin, 0, 0, 0, 0});
      if (done) memory = 0;
      if (ended || !stopped) return done.status();
      set(registers);
      setMask(mask);
      return {};
    }
    ::ptrace(PTRACE_CONT, tid, nullptr, nullptr);
    stopped = false;
    pause();
  }
  return Status::timeout("thread " + std::to_string(tid) + " does not leave our memory");
}

Status BorrowedThread::run(const LibraryCall& call, int64_t patience_ns, LibraryAnswer& answer) {
  State& s = *state_;
  // `mov eax, 39; syscall` is what getpid() is made of.
  constexpr size_t kLookBytes = 64;
  char bytes[kLookBytes] = {};
  ProcessMemory reader(s.pid);
  const char instruction[] = {'\x0f', '\x05'};
  const bool read = reader.read(call.getpid, bytes, sizeof bytes);
  const char* found = std::search(bytes, bytes + kLookBytes, instruction, instruction + 2);
  if (!read || found == bytes + kLookBytes) return Status::unsupported("the C library of the process is not known");
  s.instruction = call.getpid + static_cast<uint64_t>(found - bytes);

  if (!s.setMask(~uint64_t{0})) return s.gone();
  Status made = s.makeRoom(call);
  if (!made) {
    s.putBack();
    return made;
  }
  user_regs_struct r = s.registers;
  r.rip = s.memory;
  r.rsp = s.memory + code::kCodeBytes + code::kStackTop;
  r.orig_rax = static_cast<unsigned long long>(-1);
  r.eflags &= ~(kTrapFlag | kDirectionFlag | kAlignmentFlag);
  if (!s.set(r)) return s.gone();
  if (Status done = s.follow(patience_ns); !done) {
    s.putBack();
    return done;
  }
  const uint64_t data = s.memory + code::kCodeBytes;
  answer.value = static_cast<int32_t>(reader.get<uint64_t>(data + code::kValue).value_or(0));
  if (const uint64_t error = reader.get<uint64_t>(data + code::kError).value_or(0)) {
    char text[512] = {};
    for (size_t i = 0; i + 1 < sizeof text && reader.read(error + i, text + i, 1) && text[i]; ++i) {
    }
    answer.loader_error = *text ? text : "its loader does not say why";
  } else if (reader.get<uint64_t>(data + code::kSymbol).value_or(0) == 0) {
    answer.loader_error = "its loader does not say why";
  }
  (void)s.leave();  // what was asked for is done; at worst a megabyte stays
  return {};
}

Result<LibraryAnswer> BorrowedThread::call(const LibraryCall& call, int64_t patience_ns) {
  if (call.library.size() >= 4096 || call.function.size() >= 256 || call.argument.size() >= LibraryCall::kMostArgument)
    return Status::invalid("too much for one call");
  LibraryAnswer answer;
  TS_TRY(run(call, patience_ns, answer));
  return answer;
}

Status canBorrowThreads() {
  const unsigned bytes = vectorBytes();
  return bytes > 0 && bytes <= code::kMostVectorBytes
             ? Status()
             : Status::unsupported("this processor has no XSAVE: nothing can be brought into a running process");
}

}  // namespace tracesmith::process

#else

namespace tracesmith::process {

struct BorrowedThread::State {};
BorrowedThread::~BorrowedThread() = default;

Status canBorrowThreads() {
  return Status::unsupported("nothing can be brought into a running process on this architecture yet: only on x86-64");
}
Result<std::unique_ptr<BorrowedThread>> BorrowedThread::stop(pid_t, pid_t, int64_t) { return canBorrowThreads(); }
Result<LibraryAnswer> BorrowedThread::call(const LibraryCall&, int64_t) { return canBorrowThreads(); }

}  // namespace tracesmith::process

#endif
