#include "base/count.hpp"

#include <gtest/gtest.h>

namespace tracesmith {
namespace {

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(0, "node"), "0 nodes");
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(2500, "node"), "2,500 nodes");
}

TEST(Counted, WordsWithAPluralOfTheirOwn) {
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
  EXPECT_EQ(counted(3, "process", "processes"), "3 processes");
}

}  // namespace
}  // namespace tracesmith
