#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tracesmith {
namespace {

TEST(Text, NothingOfANameIsMarkup) {
  EXPECT_EQ(escapedMarkup("<b a=\"1\">&amp;"), "&lt;b a=&quot;1&quot;&gt;&amp;amp;");
  EXPECT_EQ(escapedMarkup("GPU\t0\n\x1b[1m – µs"), "GPU0[1m – µs") << "control characters go, letters stay";
  EXPECT_EQ(escapedMarkup("a\xff<"), "a\xEF\xBF\xBD&lt;") << "what is no UTF-8 would make the whole picture unreadable";
}

TEST(Text, ATimeBetweenClocksHasNoMoreDigitsThanTheyAllow) {
  EXPECT_EQ(humanNs(1'234'567), "1.235 ms");
  EXPECT_EQ(humanNs(1'500), "1.500 µs");
  EXPECT_EQ(humanNsWithin(1'234'567, 40'000), "1.23 ms");
  EXPECT_EQ(humanNsWithin(1'234'567, 2'000'000), "< 2.000 ms");
  EXPECT_EQ(humanNsWithin(12'345'678, 1'700'000), "12 ms");
  EXPECT_EQ(humanNsWithin(5.4e9, 1'700), "5.400 s");
  EXPECT_EQ(humanNsWithin(1'234'567, std::nan("")), "1.235 ms");
}

TEST(Text, SizesHaveUnits) {
  uint64_t bytes = 0;
  for (const auto& [text, size] : {std::pair("4096", 4096ull), std::pair("8GB", 8'000'000'000ull),
                                   std::pair("1.5 TB", 1'500'000'000'000ull), std::pair("512MiB", 536'870'912ull)}) {
    EXPECT_TRUE(parseBytes(text, bytes)) << text;
    EXPECT_EQ(bytes, size) << text;
  }
  for (const char* bad : {"", "GB", "-1", "8X", "8 GB more", "nan", "1e30", "9999999TB"})
    EXPECT_FALSE(parseBytes(bad, bytes)) << bad;
}

}  // namespace
}  // namespace tracesmith
