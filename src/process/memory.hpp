// The memory of another process, read without stopping it. Whatever is read there is hostile: it may be damaged, and it
// may change between two reads.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>

namespace tracesmith::process {

/// Tests put damaged memory behind it.
class Memory {
 public:
  virtual ~Memory() = default;
  /// All of it or nothing.
  virtual bool read(uint64_t address, void* to, size_t size) = 0;
  /// What was read so far is read anew from now on.
  virtual void forget() {}

  template <typename T>
  std::optional<T> get(uint64_t address) {
    T value;
    return read(address, &value, sizeof value) ? std::optional<T>(value) : std::nullopt;
  }
};

/// By process_vm_readv, which needs the same rights as a debugger.
class ProcessMemory : public Memory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}
  bool read(uint64_t address, void* to, size_t size) override;

 private:
  pid_t pid_;
};

/// Whole pages, each read once until forget(): a stack of 100,000 frames takes a call for each page instead of several
/// for each frame.
class PageCache : public Memory {
 public:
  explicit PageCache(Memory& below) : below_(below) {}
  bool read(uint64_t address, void* to, size_t size) override;
  void forget() override { pages_.clear(); }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kMostPages = 32768;  // 128 MB; then it starts again
  const char* page(uint64_t number);

  Memory& below_;
  std::unordered_map<uint64_t, std::unique_ptr<char[]>> pages_;  // null: cannot be read
};

}  // namespace tracesmith::process
