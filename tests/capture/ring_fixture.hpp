// Rings written by child processes, with records that can prove they are whole.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <set>

#include "capture/ring/reader.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"

namespace tracesmith::ring {

inline constexpr RingOptions kSmall{.lane0_records = 1024, .lane_records = 1024, .lanes = 8, .strings_bytes = 1 << 20};

/// A record that can prove it is whole.
inline Record numbered(uint64_t number, uint64_t writer = 0) {
  const uint64_t mixed = number * 31 + writer * 17;
  return encode(CopyRecord{.start = number * 0x9e3779b97f4a7c15ull,
                           .end = ~number,
                           .bytes = number,
                           .context = static_cast<uint32_t>(number),
                           .graph = static_cast<uint32_t>(writer),
                           .graph_node = writer,
                           .from = static_cast<uint32_t>(mixed),
                           .to = static_cast<uint32_t>(mixed >> 32)});
}
inline uint64_t numberOf(const Record& r) { return copyOf(r).bytes; }
inline uint64_t writerOf(const Record& r) { return copyOf(r).graph_node; }

inline bool whole(const Record& r) {
  const Record expected = numbered(numberOf(r), writerOf(r));
  return std::memcmp(&r, &expected, sizeof r) == 0;
}

/// Words shared with child processes.
struct Shared {
  std::atomic<uint64_t> progress{0}, lost{0};
  std::atomic<bool> ready{false}, stop{false};
};

class RingTest : public ::testing::Test {
 protected:
  RingTest() {
    void* p = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (p) Shared;
  }
  ~RingTest() override {
    for (pid_t pid : children_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  /// A process with a ring at path(); it stays until it is waited for or killed.
  pid_t start(const RingOptions& options, const std::function<void(RingWriter&)>& work) {
    ::unlink(path().c_str());
    shared_->ready = false;
    pid_t pid = ::fork();
    if (pid == 0) {
      RingWriter* ring = RingWriter::create(path().c_str(), options);
      if (!ring) ::_exit(9);
      ring->header().state = State::alive;
      work(*ring);
      ::_exit(0);
    }
    children_.insert(pid);
    return pid;
  }
  /// The same, to its end.
  void write(const RingOptions& options, const std::function<void(RingWriter&)>& work) {
    ASSERT_EQ(end(start(options, work)), 0);
  }
  int end(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    children_.erase(pid);
    return status;
  }
  std::unique_ptr<RingReader> open() {
    Result<std::unique_ptr<RingReader>> reader = RingReader::open(path());
    EXPECT_TRUE(reader) << reader.status().message();
    return reader ? std::move(*reader) : nullptr;
  }
  std::string path() const { return dir_ / "1.ring"; }

  test::TempDir dir_;
  Shared* shared_;
  std::set<pid_t> children_;
};

}  // namespace tracesmith::ring
