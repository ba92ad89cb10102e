// Memory of another process that is read again and again.
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>
#include <vector>

#include "process/memory.hpp"

#include <gtest/gtest.h>

namespace tracesmith::process {
namespace {

/// Four pages of this process, the third of which cannot be read.
class RepeatedMemoryTest : public testing::Test {
 protected:
  static constexpr size_t kPage = 4096;
  void SetUp() override {
    void* p = ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    bytes_ = static_cast<unsigned char*>(p);
    for (size_t i = 0; i < 4 * kPage; ++i) bytes_[i] = static_cast<unsigned char>(i * 7 + i / kPage);
    ASSERT_EQ(::mprotect(bytes_ + 2 * kPage, kPage, PROT_NONE), 0);
  }
  void TearDown() override { ::munmap(bytes_, 4 * kPage); }
  uint64_t at(size_t offset) const { return reinterpret_cast<uint64_t>(bytes_) + offset; }
  bool same(size_t offset, size_t size) {
    std::vector<unsigned char> got(size);
    return memory_.read(at(offset), got.data(), size) && std::memcmp(got.data(), bytes_ + offset, size) == 0;
  }
  unsigned char* bytes_ = nullptr;
  RepeatedMemory memory_{::getpid()};
};

TEST_F(RepeatedMemoryTest, WhatWasReadIsWhatIsThere) {
  EXPECT_TRUE(same(0, 1) && same(kPage - 1, 2) && same(10, 2 * kPage - 10) && same(3 * kPage + 4095, 1));
  char byte = 0;
  EXPECT_FALSE(memory_.read(at(2 * kPage), &byte, 1));
  EXPECT_FALSE(memory_.read(at(2 * kPage - 1), std::vector<char>(2).data(), 2)) << "all of it or nothing";
  EXPECT_FALSE(memory_.read(UINT64_MAX - 3, std::vector<char>(8).data(), 8));
  EXPECT_FALSE(memory_.read(0, &byte, 1));
}

TEST_F(RepeatedMemoryTest, OnlyPartsAreFetchedButAllCanBeRead) {
  EXPECT_TRUE(same(100, 8) && same(kPage + 200, 16));
  char byte = 0;
  EXPECT_FALSE(memory_.read(at(2 * kPage), &byte, 1));
  const RepeatedMemory::Parts parts = memory_.takeTouched();
  ASSERT_EQ(parts.size(), 2u) << "what cannot be read is not asked for again";
  EXPECT_EQ(parts[0].begin, 100u);
  EXPECT_EQ(parts[0].end, 108u);
  memory_.expect(&parts);
  memory_.forget();
  bytes_[104] ^= 255;
  bytes_[kPage + 300] ^= 255;
  EXPECT_TRUE(same(100, 8) && same(kPage + 200, 16) && same(90, 30) && same(kPage + 300, 1) && same(3 * kPage, kPage));
}

TEST_F(RepeatedMemoryTest, AnExpectedPageThatVanishedDoesNotHideTheOthers) {
  EXPECT_TRUE(same(0, 8) && same(kPage, 8) && same(3 * kPage, 8));
  const RepeatedMemory::Parts parts = memory_.takeTouched();
  memory_.expect(&parts);
  memory_.forget();
  ASSERT_EQ(::mprotect(bytes_ + kPage, kPage, PROT_NONE), 0);
  EXPECT_TRUE(same(0, 8));
  char byte = 0;
  EXPECT_FALSE(memory_.read(at(kPage), &byte, 1));
  EXPECT_TRUE(same(3 * kPage, 8));
}

TEST_F(RepeatedMemoryTest, ManyPages) {
  std::vector<unsigned char> large(600 * kPage);
  std::iota(large.begin(), large.end(), static_cast<unsigned char>(3));
  const auto readAll = [&] {
    for (size_t i = 0; i < large.size(); i += kPage) {
      unsigned char got = 0;
      if (!memory_.read(reinterpret_cast<uint64_t>(&large[i]), &got, 1) || got != large[i]) return false;
    }
    return true;
  };
  EXPECT_TRUE(readAll());
  const RepeatedMemory::Parts parts = memory_.takeTouched();
  memory_.expect(&parts);
  memory_.forget();
  for (unsigned char& b : large) ++b;
  EXPECT_TRUE(readAll());
}

}  // namespace
}  // namespace tracesmith::process
