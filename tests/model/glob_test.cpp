// Patterns of names.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "model/communication.hpp"

namespace tracesmith::model {
namespace {

/// The same, in one line and slowly.
bool matches(const std::string& p, const std::string& t) {
  if (p.empty()) return t.empty();
  if (p[0] == '*') return matches(p.substr(1), t) || (!t.empty() && matches(p, t.substr(1)));
  return !t.empty() && (p[0] == '?' || p[0] == t[0]) && matches(p.substr(1), t.substr(1));
}

TEST(GlobMatch, StarsAndQuestionMarksStandWhereTheyShould) {
  EXPECT_TRUE(globMatch("*ncclKernel*", "void ncclKernel_AllReduce"));
  EXPECT_TRUE(globMatch("nccl*", "nccl"));
  EXPECT_FALSE(globMatch("nccl*", "a nccl"));
  std::mt19937 random(5);
  auto text = [&](const char* letters, unsigned kinds, unsigned most) {
    std::string out;
    for (size_t n = random() % (most + 1); n > 0; --n) out += letters[random() % kinds];
    return out;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = text("*?ab", 4, 6), name = text("ab", 2, 8);
    ASSERT_EQ(globMatch(pattern, name), matches(pattern, name)) << pattern << " " << name;
  }
}

}  // namespace
}  // namespace tracesmith::model
