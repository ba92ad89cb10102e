#include "base/natural_order.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace tracesmith {
namespace {

TEST(NaturalOrder, NumbersCountAsNumbers) {
  const std::set<std::string, NaturalOrder> sorted = {"node10", "node2", "node01", "node1",
                                                      "node",   "a9b10", "a9b9",   "node99999999999999999999"};
  EXPECT_EQ(std::vector<std::string>(sorted.begin(), sorted.end()),
            (std::vector<std::string>{"a9b9", "a9b10", "node", "node01", "node1", "node2", "node10",
                                      "node99999999999999999999"}));
}

}  // namespace
}  // namespace tracesmith
