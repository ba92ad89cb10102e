// Memory that is damaged, or that changes while it is read: it takes bounded time and never more than is there.
#include <signal.h>

#include <cstring>
#include <random>

#include "process/elf.hpp"
#include "process/python.hpp"
#include "process/python_lines.hpp"
#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

/// The memory of a real process, some bytes of it changed: others in every read.
class Damaged : public Memory {
 public:
  Damaged(Memory& below, uint32_t seed, double share) : below_(below), random_(seed), share_(share) {}
  bool read(uint64_t address, void* to, size_t size) override {
    ++reads;
    if (!below_.read(address, to, size)) return false;
    std::uniform_real_distribution<double> chance(0, 1);
    if (chance(random_) >= share_) return true;
    auto* bytes = static_cast<unsigned char*>(to);
    for (int i = 0; i < 4; ++i) {
      const size_t at = random_() % size / 8 * 8;
      switch (random_() % 4) {
        case 0:
          bytes[random_() % size] ^= static_cast<unsigned char>(1u << random_() % 8);
          break;
        case 1:
          std::memset(bytes + at, 0xff, std::min<size_t>(8, size - at));
          break;
        case 2:
          std::memset(bytes + at, 0, std::min<size_t>(8, size - at));
          break;
        default: {  // a pointer to somewhere else that exists: a circle, or an object of another class
          const uint64_t other = address + random_() % 4096 / 8 * 8;
          std::memcpy(bytes + at, &other, std::min<size_t>(8, size - at));
        }
      }
    }
    return true;
  }
  size_t reads = 0;

 private:
  Memory& below_;
  std::mt19937 random_;
  double share_;
};

class DamagedMemory : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DamagedMemory);
INSTANTIATE_TEST_SUITE_P(Versions, DamagedMemory, testing::ValuesIn(pythonVersions()), nameOfVersion);

TEST_P(DamagedMemory, EndsAndStaysWithinBounds) {
  const auto child =
      startPython(pythons().at(GetParam()), std::string("import threading\n"
                                                        "def f(n):\n"
                                                        "  if n: return f(n - 1)\n"
                                                        "  threading.Event().wait()\n"
                                                        "for i in range(8):\n"
                                                        "  threading.Thread(target=f, args=(i,)).start()\n") +
                                                kReady + "f(10)\n");
  child->signal(SIGSTOP);
  ProcessMemory memory(child->pid());
  const auto mapped = modules(child->pid());
  ASSERT_TRUE(mapped);
  const auto python = findInterpreter(child->pid(), *mapped, memory);
  ASSERT_TRUE(python && *python);
  size_t frames = 0, named = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Damaged damaged(memory, seed, seed % 4 == 0 ? 0.5 : 0.02);
    PageCache cache(damaged);
    Interpreter other = **python;
    if (seed % 2) other.code_type = other.string_type = other.bytes_type = 0;  // a stripped interpreter: less to check
    PythonStacks stacks(other, cache);
    const auto threads = stacks.threads();
    if (!threads) continue;
    ASSERT_LE(threads->size(), PythonStacks::kMostThreads);
    for (size_t i = 0; i < std::min<size_t>(threads->size(), 32); ++i) {
      const RawStack stack = stacks.walkRunning((*threads)[i]);
      ASSERT_LE(stack.frames.size(), PythonStacks::kMostFrames);
      for (size_t f = 0; f < std::min<size_t>(stack.frames.size(), 64); ++f, ++frames)
        named += stacks.resolve(stack.frames[f]).has_value();
    }
    EXPECT_LT(damaged.reads, 1000000u);
  }
  EXPECT_GT(frames, 0u);
  EXPECT_GT(named, 0u);
}

TEST(HostileMemory, ACircleOfFramesEnds) {
  if (!pythons().contains("3.11")) GTEST_SKIP() << "no Python 3.11 here";
  struct Circle : Memory {  // every word is an address of itself
    bool read(uint64_t, void* to, size_t size) override {
      for (size_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = i % 8 == 1 ? 0x10 : 0;
      return true;
    }
  } memory;
  Interpreter python;
  python.layout = *knownLayout({3, 11, 0});
  PythonStacks stacks(python, memory);
  EXPECT_FALSE(stacks.threads());
  EXPECT_TRUE(stacks.walkRunning({0x1000, 0, {}, {}}).damaged);
}

TEST(HostileMemory, TablesOfLinesOfRandomBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string table(random() % 64, '\0');
    for (char& c : table) c = static_cast<char>(random());
    for (const int minor : {8, 10, 11})
      (void)lineAt({3, minor, 0}, table, static_cast<int32_t>(random()), random() % 256);
  }
}

TEST(HostileMemory, ProgramFilesThatAreDamaged) {
  TempDir dir;
  const std::string whole = readFile(TRACESMITH_BIN).substr(0, 1 << 16) + readFile("/proc/self/exe").substr(0, 1 << 16);
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole.substr(0, i % 2 ? whole.size() : random() % 4096);
    for (int k = 0; k < 8 && !bytes.empty(); ++k)
      bytes[random() % std::min<size_t>(bytes.size(), 1024)] = static_cast<char>(random());
    writeFile(dir / "file", bytes);
    const Result<ElfFile> elf = ElfFile::open(dir / "file");
    if (!elf) continue;
    (void)elf->symbols({"_PyRuntime", "Py_Version"});
    (void)elf->section(".PyRuntime");
    (void)elf->bias(0x1000, random());
  }
}

}  // namespace
}  // namespace tracesmith::test
