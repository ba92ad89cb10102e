// Causes and alerts are declared once: everything that shows them has all of them.
#include "tracesmith/model/cause.hpp"

#include <gtest/gtest.h>

#include <set>

#include "model/alert.hpp"
#include "model/manual_table.hpp"

namespace tracesmith {
namespace {

TEST(Causes, EachHasANameATitleAndAdvice) {
  std::set<std::string> names;
  for (const CauseInfo& c : causes()) {
    EXPECT_EQ(&info(c.cause), &c);
    EXPECT_EQ(causeNamed(c.name), c.cause);
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_STRNE(c.title, "") << c.name;
    EXPECT_STRNE(c.advice, "") << c.name;
    EXPECT_EQ(adviceOf(c.cause, "GPU 3 of node1").find('{'), std::string::npos) << c.name;
  }
  EXPECT_EQ(causeNamed("no such cause"), Cause::unknown);
}

TEST(Causes, AdviceNamesTheGpu) {
  EXPECT_NE(adviceOf(Cause::compute, "GPU 3 of node1").find("whether GPU 3 of node1 is shared"), std::string::npos);
  EXPECT_NE(adviceOf(Cause::compute).find("whether its GPU is shared"), std::string::npos);
}

TEST(Causes, SentencesTakeWhatWasMeasured) {
  EXPECT_EQ(sentenceOf(Cause::compute, 1.5), "its kernels take 1.50 × as long");
  EXPECT_EQ(sentenceOf(Cause::clock, 1500, 1980), "SM clock 1500 MHz, others 1980");
  EXPECT_EQ(sentenceOf(Cause::data_loading, 12.34),
            "it waits for its data loader for 12.3 % of a step more than the others");
}

TEST(Causes, TheManualHasTheTableOfThem) {
  std::string table;
  for (const CauseInfo& c : causes()) {
    std::string advice = c.advice;
    for (size_t at; (at = advice.find("{gpu}")) != std::string::npos;) advice.replace(at, 5, "the GPU");
    table += std::string("| `") + c.name + "` | " + c.title + " | " + advice + " |\n";
  }
  test::expectTable("| cause | in words | what to do next |", table);
}

TEST(Alerts, TheManualHasTheTableOfThem) {
  std::string table;
  for (const AlertInfo& a : alertKinds()) {
    EXPECT_EQ(&info(a.kind), &a);
    AlertKind kind{};
    fromName(a.name, kind);
    EXPECT_EQ(kind, a.kind);
    table += std::string("| `") + a.name + "` | " + nameOf(a.severity) + " | " + a.doc + " |\n";
  }
  test::expectTable("| alert | severity | when |", table);
}

}  // namespace
}  // namespace tracesmith
