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
#include <vector>

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

/// For somebody who reads the same places again and again: what was needed of each page last time is fetched together,
/// by one call of the kernel, as soon as some of it is needed. Other pages are fetched whole.
class RepeatedMemory : public Memory {
 public:
  /// Bytes of a page.
  struct Part {
    uint64_t page = 0;  ///< its number
    uint32_t begin = 0, end = 0;
  };
  using Parts = std::vector<Part>;

  explicit RepeatedMemory(pid_t pid) : pid_(pid) {}
  bool read(uint64_t address, void* to, size_t size) override;
  void forget() override;
  /// What is likely to be read from now on, also after each forget(). It stays the caller's; null: nothing.
  void expect(const Parts* parts) { expected_ = parts; }
  /// What was read since the last forget().
  Parts takeTouched();

 private:
  static constexpr uint32_t kPage = 4096;
  static constexpr size_t kMostPages = 16384;  // 64 MB; then it starts again
  struct Page {
    uint64_t fetched = 0, touched = 0;  // when
    uint32_t begin = 0, end = 0;        // what was fetched; nothing if it cannot be read
    uint32_t first = kPage, last = 0;   // what was read of it
    char bytes[kPage];
  };
  Page& pageOf(uint64_t number);  ///< stays where it is until forget()
  void fetch(const Part* parts, size_t count);

  pid_t pid_;
  uint64_t now_ = 1;  // counts forget()
  const Parts* expected_ = nullptr;
  bool expected_fetched_ = false;
  std::vector<uint64_t> touched_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  struct Recent {
    uint64_t number = 0;
    Page* page = nullptr;
  };
  Recent recent_[64];  // by the lowest bits of the number
};

}  // namespace tracesmith::process
