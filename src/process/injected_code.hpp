// The instructions that a borrowed thread runs, and where they find what they need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tracesmith::process {

/// Memory of ours in the process: a page of code, then data and a stack.
namespace injected {

constexpr size_t kCodeBytes = 4096, kDataBytes = 1 << 20;
constexpr size_t kMostVectorBytes = 32 << 10;

/// Offsets in the data.
enum Place : uint32_t {
  kDlopen = 0,
  kDlsym = 8,
  kDlerror = 16,
  kHandle = 24,   // what dlopen returned
  kSymbol = 32,   // what dlsym returned
  kValue = 40,    // what the function returned
  kError = 48,    // address of the loader's message; 0: there is none
  kStage = 56,    // how far it is
  kMask = 64,     // of signals, as it was
  kStack = 72,    // stack pointer, as it was
  kNext = 80,     // where it goes on
  kPath = 0x100,  // text
  kName = 0x1100,
  kArgument = 0x1200,
  kVectors = 0x42000,                // vector registers, as they were: XSAVE's area
  kStackTop = kDataBytes - 0x4000,   // of our stack
  kRegisters = kDataBytes - 0x1000,  // flags and general registers, as they are popped; below is room for signals
};
/// Values of kStage.
enum Stage : uint32_t { kCalling = 0, kCalled = 1, kSignalsAreBack = 2 };

/// Of general registers, in the order in which they are popped.
struct Popped {
  uint64_t flags, r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rdx, rcx, rbx, rax;
};
static_assert(kRegisters + sizeof(Popped) <= kDataBytes);

/// For a page of code at this address, the data directly behind it.
std::string code(uint64_t at);

}  // namespace injected
}  // namespace tracesmith::process
