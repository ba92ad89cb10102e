// Runs a fuzz target over stored inputs: the main() of tests/fuzz/*_fuzz.cpp where libFuzzer is not linked.
// Arguments are files and folders; one that does not exist holds no inputs yet. Each input is also run with some bytes
// changed, the same ones each time: TRACESMITH_FUZZ_ROUNDS (20) times, from TRACESMITH_FUZZ_SEED (1) on. For more,
// `make fuzz`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes);

namespace {

namespace fs = std::filesystem;

// Inputs in the order of their names, so that two runs fail at the same one.
std::vector<fs::path> inputsOf(const fs::path& argument) {
  std::vector<fs::path> inputs;
  if (fs::is_regular_file(argument)) inputs.push_back(argument);
  if (!fs::is_directory(argument)) return inputs;
  for (const auto& entry : fs::recursive_directory_iterator(argument)) {
    if (entry.is_regular_file()) inputs.push_back(entry.path());
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* set = std::getenv(variable);
  return set ? std::strtoull(set, nullptr, 10) : otherwise;
}

std::vector<std::uint8_t> change(std::vector<std::uint8_t> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 1 + random() % 8; n > 0; --n) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:  // a large number
        for (std::size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = 0xff;
        break;
      default:
        if (random() % 4 == 0) bytes.resize(at + 1);
    }
  }
  return bytes;
}

bool replay(const fs::path& input) {
  std::ifstream file(input, std::ios::binary);
  const std::vector<char> read{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    std::fprintf(stderr, "cannot read %s\n", input.c_str());
    return false;
  }
  // Named before it runs: the last name in the output of a crash is the guilty one.
  std::printf("%s (%zu bytes)\n", input.c_str(), read.size());
  std::fflush(stdout);
  // A block of exactly this size lets the address sanitizer see the first byte past the end.
  const std::vector<std::uint8_t> bytes(read.begin(), read.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  for (std::uint64_t round = 0; round < number("TRACESMITH_FUZZ_ROUNDS", 20) && !bytes.empty(); ++round) {
    const std::uint64_t seed = number("TRACESMITH_FUZZ_SEED", 1) + round;
    const std::vector<std::uint8_t> changed = change(bytes, seed);
    std::fprintf(stderr, "  seed %llu\n", static_cast<unsigned long long>(seed));
    LLVMFuzzerTestOneInput(changed.data(), changed.size());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint8_t nothing = 0;
  LLVMFuzzerTestOneInput(&nothing, 0);
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& input : inputsOf(argv[i])) {
      if (!replay(input)) return 1;
      ++count;
    }
  }
  std::printf("replayed %zu inputs and the empty one\n", count);
}
