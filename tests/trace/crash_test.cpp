// A writer that is killed at any moment leaves every finished block readable.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "support/process.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

/// Writes rows with ts 0, 1, 2, … for ever, and tells after each block how many rows are safe.
[[noreturn]] void writeForEver(const std::string& path, int pipe) {
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, {.block_rows = 64});
  if (!writer) ::_exit(3);
  auto appender = (*writer)->appender();
  for (int64_t i = 0;; ++i) {
    EventRow row;
    row.ts = i;
    row.type = 0;
    row.name = (*writer)->string("name " + std::to_string(i / 10));
    if (!appender->append(row)) ::_exit(4);
    if (i % 64 == 63) {  // the block was handed to the kernel
      int64_t safe = i + 1;
      if (::write(pipe, &safe, sizeof safe) != sizeof safe) ::_exit(5);
    }
  }
}

TEST(Crash, KilledAHundredTimesNothingFinishedIsLost) {
  test::TempDir dir;
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const std::string path = dir / "t.sbt";
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    pid_t pid = ::fork();
    if (pid == 0) writeForEver(path, fds[1]);
    ::close(fds[1]);
    // Wait for some progress, then a random moment within the next blocks.
    int64_t safe = 0, got;
    const int64_t wanted = 64 * (1 + static_cast<int64_t>(random() % 50));
    while (safe < wanted && ::read(fds[0], &got, sizeof got) == sizeof got) safe = got;
    for (unsigned spin = random() % 100000; spin > 0; --spin) asm volatile("");
    ::kill(pid, SIGKILL);
    while (::read(fds[0], &got, sizeof got) == sizeof got) safe = got;
    ::close(fds[0]);
    int status;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    Result<std::unique_ptr<Reader>> reader = Reader::open(path);
    ASSERT_TRUE(reader) << reader.status().message();
    EXPECT_FALSE((*reader)->closed());
    EXPECT_EQ((*reader)->damageSummary(), "");
    BlockDecoder decoder(**reader);
    ColumnData ts, name;
    int64_t next = 0;
    const Strings* strings = *(*reader)->strings(0);
    for (const Block& block : (*reader)->blocks()) {
      ASSERT_TRUE(decoder.decode(block, events::ts, ts));
      ASSERT_TRUE(decoder.decode(block, events::name, name));
      for (size_t i = 0; i < block.rows; ++i, ++next) {
        ASSERT_EQ(ts.data<int64_t>()[i], next);
        ASSERT_EQ(strings->at(name.data<uint32_t>()[i]), "name " + std::to_string(next / 10));
      }
    }
    EXPECT_GE(next, safe) << "round " << round;
    std::filesystem::remove(path);
  }
}

TEST(Crash, FullDiskIsAnErrorNotACrash) {
  // /dev/full accepts no byte.
  Result<std::unique_ptr<Writer>> writer = Writer::create("/dev/full");
  ASSERT_FALSE(writer);
  EXPECT_NE(writer.status().message().find("No space left"), std::string::npos);
}

}  // namespace
}  // namespace tracesmith::trace
