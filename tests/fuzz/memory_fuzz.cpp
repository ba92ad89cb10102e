// The reader of Python stacks on any memory. Every address leads somewhere in the input, so that pointers in it reach
// other parts of it; the classes of objects are not checked. The first byte chooses the version of Python, the second
// how much of the memory changes from read to read.
#include <cstdint>
#include <cstring>

#include "process/own_stacks.hpp"
#include "process/python.hpp"

using namespace tracesmith;
using namespace tracesmith::process;

namespace {

class AnyMemory : public Memory {
 public:
  AnyMemory(const uint8_t* data, size_t size, unsigned changes) : data_(data), size_(size), changes_(changes) {}
  bool read(uint64_t address, void* to, size_t size) override {
    ++reads_;
    if (size_ == 0 || address < 4096) return false;
    auto* out = static_cast<uint8_t*>(to);
    for (size_t i = 0; i < size; ++i) out[i] = data_[(address + i) % size_];
    if (changes_ > 0 && reads_ % (257 - changes_) == 0 && size > 0) out[reads_ % size] ^= static_cast<uint8_t>(reads_);
    return true;
  }

 private:
  const uint8_t* data_;
  size_t size_, reads_ = 0;
  unsigned changes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  constexpr uint64_t kBase = 1 << 20;
  constexpr size_t kMost = 2000;
  AnyMemory memory(data + 2, size - 2, data[1]);
  (void)toldLayout(memory, kBase);
  const Result<PythonLayout> layout = knownLayout({3, 8 + data[0] % 5, 0});
  if (!layout) return 0;
  Interpreter python;
  python.layout = *layout;
  python.runtime = kBase;
  PythonStacks stacks(python, memory);
  PythonThread thread;
  thread.state = kBase;
  if (const auto threads = stacks.threads(); threads && !threads->empty()) thread = threads->front();
  for (const RawStack& stack : {stacks.walk(thread, kMost), stacks.walkAgain(thread, kMost)})
    for (size_t i = 0; i < std::min<size_t>(stack.frames.size(), 20); ++i) {
      (void)stacks.resolve(stack.frames[i]);
      (void)stacks.variables(stack.frames[i]);
      (void)stacks.stillThere(stack.frames[i]);
    }
  (void)parseOwnStacks(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
