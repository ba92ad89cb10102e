// Balanced jobs over HTTP: workers that report their steps and follow the answers, and who may change plans.
#include <sys/stat.h>

#include <cmath>

#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

class BalanceApi : public ServerFixture {
 protected:
  static Reply post(uint16_t port, const std::string& path, const std::string& body) {
    return ask(port, "POST", path, body);
  }
  Reply ingest(const std::string& body) { return post(http_, "/api/v1/ingest", body); }
  static std::string step(int rank, int step, int batch, double busy_s) {
    return "{\"job\":\"mixed\",\"rank\":" + std::to_string(rank) +
           ",\"ranks\":2,\"total\":64,\"step\":" + std::to_string(step) + ",\"batch\":" + std::to_string(batch) +
           ",\"busy_s\":" + std::to_string(busy_s) + ",\"wall_s\":5}";
  }
  static double number(const std::string& body, const std::string& key, size_t from = 0) {
    const size_t at = body.find("\"" + key + "\":", from);
    return at == std::string::npos ? NAN : std::atof(body.c_str() + at + key.size() + 3);
  }
  /// Two workers, of which the second is three times as slow; each does what it was answered.
  void train(int first, int last) {
    for (int s = first; s < last; ++s) {
      for (int r : {0, 1}) {
        const Reply reply = ingest(step(r, s, batch_[r], (r == 1 ? 0.03 : 0.01) * batch_[r]));
        ASSERT_EQ(reply.status, 200) << reply.body;
        answer_[r] = reply.body;
      }
      for (int r : {0, 1}) {
        const size_t next = answer_[r].find("\"next\":{");
        const bool begins = next != std::string::npos && number(answer_[r], "from_step", next) <= s + 1;
        batch_[r] = static_cast<int>(number(answer_[r], "batch", begins ? next : 0));
      }
      ASSERT_EQ(batch_[0] + batch_[1], 64) << s << answer_[0] << answer_[1];
    }
  }
  int batch_[2] = {32, 32};
  std::string answer_[2];
};

TEST_F(BalanceApi, WorkersReportStepsAndFollowPlans) {
  serveMaster();
  EXPECT_EQ(get(http_, "/api/v1/plans").body.find("{\"jobs\":[]"), 0u);
  train(0, 20);
  EXPECT_EQ(batch_[0], 48) << answer_[0];
  const Reply plans = get(http_, "/api/v1/plans");
  EXPECT_TRUE(plans.has("\"job\":\"mixed\",\"coordination\":\"workers\"") && plans.has("Rank 1 needs")) << plans.body;
  EXPECT_TRUE(plans.has("\"before\":{\"version\":0")) << plans.body;
  EXPECT_TRUE(has(command({"plans"}).out, "in force  plan 1 from step"));
  EXPECT_TRUE(has(command({"plans", "--json"}).out, "\"job\":\"mixed\""));

  ASSERT_EQ(post(http_, "/api/v1/plans/mixed/undo", "").status, 200);
  EXPECT_EQ(post(http_, "/api/v1/plans/mixed/undo", "").status, 429);  // one is on its way
  train(20, 24);
  EXPECT_EQ(batch_[0], 32);
  EXPECT_EQ(post(http_, "/api/v1/plans/mixed/dry_run", R"({"mode":"on"})").status, 200);
  EXPECT_TRUE(get(http_, "/api/v1/plans").has("\"dry_run\":true"));
  EXPECT_EQ(command({"plans", "--job", "mixed", "--dry-run", "off"}).rc, 0);
  EXPECT_TRUE(get(http_, "/api/v1/plans").has("\"dry_run\":false"));
  EXPECT_EQ(post(http_, "/api/v1/plans/other/undo", "").status, 404);
  EXPECT_EQ(post(http_, "/api/v1/plans/mixed/dry_run", R"({"mode":"maybe"})").status, 400);
}

TEST_F(BalanceApi, OnlyOperatorsReportStepsAndChangePlans) {
  const std::string tokens = dir_ / "tokens";
  test::writeFile(tokens, "viewer viewer-token-0123456\noperator operator-token-0123\n");
  ASSERT_EQ(::chmod(tokens.c_str(), 0600), 0);
  serveMaster({"--token-file", tokens});
  const std::string viewer = "Authorization: Bearer viewer-token-0123456\r\n",
                    may = "Authorization: Bearer operator-token-0123\r\n";
  EXPECT_EQ(ask(http_, "POST", "/api/v1/ingest", step(0, 0, 32, 0.3), viewer).status, 403);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/plans/mixed/undo", "", viewer).status, 403);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/plans/mixed/dry_run", R"({"mode":"on"})", viewer).status, 403);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/ingest", step(0, 0, 32, 0.3), may).status, 200);
  EXPECT_EQ(get(http_, "/api/v1/plans", viewer).status, 200);
  EXPECT_EQ(ask(http_, "POST", "/api/v1/plans/mixed/dry_run", R"({"mode":"on"})", may).status, 200);
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  EXPECT_TRUE(has(audit, "\"action\":\"dry-run-on\",\"what\":\"mixed\",\"ok\":true")) << audit;
}

TEST_F(BalanceApi, ListsOfStepsGetListsOfPlans) {
  serveMaster();
  const Reply reply = ingest("[" + step(0, 0, 32, 0.3) + "," + step(1, 0, 32, 0.3) + "]");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.find("{\"plans\":[{\"version\":0"), 0u) << reply.body;
  EXPECT_EQ(ingest("[]").body, "{\"plans\":[]}");
}

TEST_F(BalanceApi, WhatIsNoStepIsRefusedWithOneSentence) {
  serveMaster();
  const std::string good = step(0, 0, 32, 0.3);
  auto with = [&](const std::string& what, const std::string& by) {
    std::string body = good;
    return body.replace(body.find(what), what.size(), by);
  };
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "the body cannot be read as JSON"},
           {"{", "the body cannot be read as JSON"},
           {"7", "a step is not a JSON object"},
           {"[[]]", "a step is not a JSON object"},
           {"{}", "'job' must be a string"},
           {with("\"mixed\"", "7"), "'job' must be a string"},
           {with("\"mixed\"", "\"../x\""), "invalid"},
           {with("\"rank\":0", "\"rank\":-1"), "'rank' must be a whole number between 0 and 1000000000"},
           {with("\"rank\":0", "\"rank\":0.5"), "'rank' must be a whole number"},
           {with("\"rank\":0", "\"rank\":\"0\""), "'rank' must be a whole number"},
           {with("\"rank\":0", "\"rank\":2"), "'rank' must be less than 'ranks'"},
           {with("\"ranks\":2", "\"ranks\":0"), "'ranks' must be a whole number between 1"},
           {with("\"ranks\":2", "\"ranks\":5000"), "a job that reports over HTTP has at most 4096 ranks"},
           {with("\"total\":64", "\"total\":1e300"), "'total' must be a whole number"},
           {with("\"total\":64", "\"total\":99999999999999999999"), "the body cannot be read as JSON"},
           {with("\"step\":0", "\"step\":null"), "'step' must be a whole number"},
           {with("\"batch\":32", "\"batch\":65"), "'batch' must not be more than 'total'"},
           {with("\"batch\":32,", ""), "'batch' must be a whole number"},
           {with("0.300000", "NaN"), "the body cannot be read as JSON"},
           {with("0.300000", "-1"), "'busy_s' must be a number of seconds"},
           {with("0.300000", "0"), "'busy_s' must be more than 0"},
           {with("0.300000", "1e99"), "'busy_s' must be a number of seconds"},
           {with("\"wall_s\":5", "\"wall_s\":\"5\""), "'wall_s' must be a number of seconds"},
           {with("\"wall_s\":5", "\"wall\":5"), "a step has no field 'wall'"},
       }) {
    const Reply reply = ingest(body);
    EXPECT_EQ(reply.status, 400) << body << reply.body;
    if (why != "invalid") {
      EXPECT_TRUE(reply.has(why)) << body << reply.body;
    }
  }
  EXPECT_EQ(get(http_, "/api/v1/plans").body.find("{\"jobs\":[]"), 0u);
  EXPECT_TRUE(ingest(with("0.300000", "6")).has("is no measurement"));  // longer than the step itself
}

}  // namespace
}  // namespace tracesmith::server
