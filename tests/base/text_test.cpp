#include "base/text.hpp"

#include <gtest/gtest.h>

namespace tracesmith {
namespace {

TEST(Text, NothingOfANameIsMarkup) {
  EXPECT_EQ(escapedMarkup("<b a=\"1\">&amp;"), "&lt;b a=&quot;1&quot;&gt;&amp;amp;");
  EXPECT_EQ(escapedMarkup("GPU\t0\n\x1b[1m – µs"), "GPU0[1m – µs") << "control characters go, letters stay";
  EXPECT_EQ(escapedMarkup("a\xff<"), "a\xEF\xBF\xBD&lt;") << "what is no UTF-8 would make the whole picture unreadable";
}

}  // namespace
}  // namespace tracesmith
