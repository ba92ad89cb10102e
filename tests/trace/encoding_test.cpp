// Every encoding gives back what it was given, and refuses what it was not.
#include "trace/encoding.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tracesmith::trace {
namespace {

template <typename T>
std::vector<T> throughPlanes(const std::vector<uint64_t>& codes) {
  Encoder encoder;
  Decoder decoder;
  std::string bytes;
  encoder.planes(codes, bytes);
  std::string_view in = bytes;
  std::vector<T> out(codes.size());
  EXPECT_TRUE(decoder.planes(in, codes.size(), out.data()));
  EXPECT_TRUE(in.empty());
  return out;
}

TEST(Planes, KeepEveryWidthAndSize) {
  std::mt19937_64 random(1);
  for (int bits = 0; bits <= 64; ++bits)
    for (size_t n : {0u, 1u, 2u, 31u, 32u, 33u, 1000u, 5000u}) {
      std::vector<uint64_t> codes(n);
      for (uint64_t& c : codes) c = bits == 0 ? 0 : random() >> (64 - bits);
      EXPECT_EQ(throughPlanes<uint64_t>(codes), codes) << bits << " bits, " << n;
    }
}

TEST(Planes, NarrowOutputsKeepTheLowBits) {
  std::vector<uint64_t> codes;
  for (uint64_t i = 0; i < 3000; ++i) codes.push_back(i * 0x123456789abcull);
  auto u8 = throughPlanes<uint8_t>(codes);
  auto u16 = throughPlanes<uint16_t>(codes);
  auto u32 = throughPlanes<uint32_t>(codes);
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(u8[i], static_cast<uint8_t>(codes[i]));
    EXPECT_EQ(u16[i], static_cast<uint16_t>(codes[i]));
    EXPECT_EQ(u32[i], static_cast<uint32_t>(codes[i]));
  }
}

TEST(Planes, RepeatedBytesTakeNoRoom) {
  std::vector<uint64_t> codes(100000, 0x0102030405060708ull);
  std::string bytes;
  Encoder().planes(codes, bytes);
  EXPECT_LT(bytes.size(), 64u);
}

TEST(Planes, RandomBytesAreStoredAsTheyAre) {
  std::mt19937_64 random(2);
  std::vector<uint64_t> codes(20000);
  for (uint64_t& c : codes) c = random() & 0xff;
  std::string bytes;
  Encoder().planes(codes, bytes);
  EXPECT_EQ(bytes.size(), codes.size() + 6);
}

TEST(Planes, EveryTruncationIsRefused) {
  std::vector<uint64_t> codes;
  for (uint64_t i = 0; i < 500; ++i) codes.push_back(i * i);
  std::string bytes;
  Encoder().planes(codes, bytes);
  Decoder decoder;
  std::vector<uint64_t> out(codes.size());
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    std::string_view in = std::string_view(bytes).substr(0, cut);
    EXPECT_FALSE(decoder.planes(in, codes.size(), out.data())) << cut;
  }
}

TEST(Planes, WrongCountsAreRefused) {
  std::vector<uint64_t> codes(500);
  for (uint64_t i = 0; i < 500; ++i) codes[i] = i;
  std::string bytes;
  Encoder().planes(codes, bytes);
  Decoder decoder;
  std::vector<uint64_t> out(2000);
  for (size_t n : {1u, 499u, 501u, 2000u}) {
    std::string_view in = bytes;
    EXPECT_FALSE(decoder.planes(in, n, out.data())) << n;
  }
  std::string_view in = "\x09";
  EXPECT_FALSE(decoder.planes(in, 1, out.data()));
}

TEST(Heap, KeepsTextsOfAllSizes) {
  std::vector<uint64_t> lengths;
  std::string all;
  for (int i = 0; i < 300; ++i) {
    std::string text(static_cast<size_t>(i * i % 97), static_cast<char>('a' + i % 26));
    lengths.push_back(text.size());
    all += text;
  }
  std::string bytes;
  Encoder().heap(lengths, all, bytes);
  Decoder decoder;
  std::vector<uint32_t> got;
  std::string text;
  std::string_view in = bytes;
  ASSERT_TRUE(decoder.heap(in, lengths.size(), got, text));
  EXPECT_EQ(text, all);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), lengths.begin(), lengths.end()));
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    in = std::string_view(bytes).substr(0, cut);
    EXPECT_FALSE(decoder.heap(in, lengths.size(), got, text));
  }
}

TEST(Heap, ABombIsRefusedBeforeItIsInflated) {
  // Lengths and raw size promise 4 GiB − 1.
  std::string bytes;
  Encoder().planes(std::vector<uint64_t>{0xffffffffu}, bytes);
  bytes += std::string("\xff\xff\xff\xff\x01\x00\x00\x00\x00", 9);
  Decoder decoder;
  std::vector<uint32_t> lengths;
  std::string text;
  std::string_view in = bytes;
  EXPECT_FALSE(decoder.heap(in, 1, lengths, text));
  EXPECT_LT(text.capacity(), 1u << 20);
}

TEST(Delta, ComesBack) {
  std::mt19937_64 random(3);
  for (bool signed_steps : {false, true}) {
    std::vector<uint64_t> values{random()};
    for (int i = 0; i < 1000; ++i) values.push_back(values.back() + (random() % 1000) - (signed_steps ? 500 : 0));
    std::vector<uint64_t> codes(values.size() - 1);
    EXPECT_EQ(differences(values, codes.data()), signed_steps);
    if (signed_steps) zigzag(codes);
    std::vector<int64_t> back(codes.begin(), codes.end());
    undelta(back.data(), back.size(), static_cast<int64_t>(values[0]), signed_steps);
    for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(static_cast<uint64_t>(back[i]), values[i + 1]);
  }
}

}  // namespace
}  // namespace tracesmith::trace
