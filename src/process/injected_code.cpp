#include "process/injected_code.hpp"

#include <cstring>
#include <initializer_list>
#include <utility>

namespace tracesmith::process::injected {
namespace {

/// Machine code of x86-64. rbx holds the address of the data.
class Assembler {
 public:
  explicit Assembler(uint64_t at) : at_(at) {}

  void bytes(std::initializer_list<int> all) {
    for (const int b : all) code_ += static_cast<char>(b);
  }
  template <typename T>
  void number(T value) {
    code_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// An instruction with a memory operand [rbx + place].
  void with(std::initializer_list<int> instruction, Place place) {
    bytes(instruction);
    number(static_cast<int32_t>(place));
  }
  /// One with [rip + …], the same place.
  void relative(std::initializer_list<int> instruction, Place place) {
    bytes(instruction);
    const uint64_t next = at_ + code_.size() + sizeof(int32_t);
    number(static_cast<int32_t>(static_cast<int64_t>(at_ + kCodeBytes + place - next)));
  }
  /// A jump forwards; returns what land() needs.
  size_t jump(std::initializer_list<int> instruction) {
    bytes(instruction);
    number(int32_t{0});
    return code_.size();
  }
  void land(size_t from) {
    const auto distance = static_cast<int32_t>(code_.size() - from);
    std::memcpy(code_.data() + from - sizeof distance, &distance, sizeof distance);
  }
  void all(int opcode_eax) {  // mov eax/edx, -1: all vector registers
    bytes({opcode_eax});
    number(int32_t{-1});
    bytes({0xba});
    number(int32_t{-1});
  }
  std::string take() { return std::move(code_); }

 private:
  uint64_t at_;
  std::string code_;
};

}  // namespace

std::string code(uint64_t at) {
  Assembler a(at);
  a.bytes({0x48, 0xbb});  // mov rbx, data
  a.number(at + kCodeBytes);
  a.all(0xb8);
  a.with({0x48, 0x0f, 0xae, 0xa3}, kVectors);  // xsave64
  a.bytes({0xfc});                             // cld
  a.with({0x48, 0x8d, 0xbb}, kPath);           // lea rdi
  a.bytes({0xbe});                             // mov esi, RTLD_NOW
  a.number(int32_t{2});
  a.with({0xff, 0x93}, kDlopen);        // call
  a.with({0x48, 0x89, 0x83}, kHandle);  // mov [], rax
  a.bytes({0x48, 0x85, 0xc0});          // test rax, rax
  const size_t no_library = a.jump({0x0f, 0x84});
  a.bytes({0x48, 0x89, 0xc7});        // mov rdi, rax
  a.with({0x48, 0x8d, 0xb3}, kName);  // lea rsi
  a.with({0xff, 0x93}, kDlsym);
  a.with({0x48, 0x89, 0x83}, kSymbol);
  a.bytes({0x48, 0x85, 0xc0});
  const size_t no_function = a.jump({0x0f, 0x84});
  a.with({0x48, 0x8d, 0xbb}, kArgument);
  a.bytes({0xff, 0xd0});  // call rax
  a.with({0x48, 0x89, 0x83}, kValue);
  const size_t called = a.jump({0xe9});
  a.land(no_library);
  a.land(no_function);
  a.with({0xff, 0x93}, kDlerror);
  a.with({0x48, 0x89, 0x83}, kError);
  a.land(called);
  a.with({0xc7, 0x83}, kStage);  // mov dword [], kCalled
  a.number(uint32_t{kCalled});
  // Back to how it was: vector registers, signals, then all the others.
  a.all(0xb8);
  a.with({0x48, 0x0f, 0xae, 0xab}, kVectors);  // xrstor64
  a.bytes({0xb8});                             // mov eax, rt_sigprocmask
  a.number(int32_t{14});
  a.bytes({0xbf});  // mov edi, SIG_SETMASK
  a.number(int32_t{2});
  a.with({0x48, 0x8d, 0xb3}, kMask);
  a.bytes({0x31, 0xd2, 0x41, 0xba});  // xor edx, edx; mov r10d, 8
  a.number(int32_t{8});
  a.bytes({0x0f, 0x05});  // syscall
  a.with({0xc7, 0x83}, kStage);
  a.number(uint32_t{kSignalsAreBack});
  a.with({0x48, 0x8d, 0xa3}, kRegisters);                                                       // lea rsp
  a.bytes({0x9d});                                                                              // popfq
  for (const int reg : {0x5f, 0x5e, 0x5d, 0x5c, 0x5b, 0x5a, 0x59, 0x58}) a.bytes({0x41, reg});  // pop r15 … r8
  a.bytes({0x5f, 0x5e, 0x5d, 0x5a, 0x59, 0x5b, 0x58});  // pop rdi, rsi, rbp, rdx, rcx, rbx, rax
  a.relative({0x48, 0x8b, 0x25}, kStack);               // mov rsp
  a.relative({0xff, 0x25}, kNext);                      // jmp
  return a.take();
}

}  // namespace tracesmith::process::injected
