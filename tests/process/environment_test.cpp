// The environment of a process as it may be shown.
#include "process/environment.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith::process {
namespace {

TEST(Environment, ValuesThatMayBeSecretAreMasked) {
  for (const char* name :
       {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "WANDB_API_KEY", "OPENAI_APIKEY", "PGPASSWORD",
        "MYSQL_PWD", "DB_PASS", "GOOGLE_APPLICATION_CREDENTIALS", "SSH_AUTH_SOCK", "SENTRY_DSN", "MY-SESSION-COOKIE"})
    EXPECT_TRUE(mayBeSecret(name, "x")) << name;
  for (const char* name : {"PATH", "PWD", "OLDPWD", "RANK", "TOKENIZERS_PARALLELISM", "NCCL_DEBUG",
                           "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "COMPASS"})
    EXPECT_FALSE(mayBeSecret(name, "value")) << name;
  EXPECT_TRUE(mayBeSecret("DATABASE_URL", "postgres://ada:lovelace@db/train"));
  EXPECT_TRUE(mayBeSecret("URLS", "http://a/ https://u:p@b/"));
  EXPECT_FALSE(mayBeSecret("PROXY", "http://proxy:3128/a:b@c"));
  EXPECT_TRUE(mayBeSecret("SETTING", "hf_abcdefghijkl"));
}

TEST(Environment, OfAProcessIsRead) {
  test::Child child({"sleep", "100"}, test::Environment{{"RANK", "7"}, {"MY_TOKEN", "do-not-show-me"}, {"EMPTY", ""}});
  const auto value = [&](const std::string& name) -> std::string {
    Result<std::vector<Variable>> all = environmentOf("", child.pid());
    if (!all) return "error";
    for (const Variable& v : *all)
      if (v.name == name) return (v.masked ? "masked " : "") + v.value;
    return "none";
  };
  EXPECT_TRUE(test::eventually([&] { return value("RANK") == "7"; })) << value("RANK");
  EXPECT_EQ(value("MY_TOKEN"), "masked ***");
  EXPECT_EQ(value("EMPTY"), "");
  EXPECT_EQ(value("NOT_THERE"), "none");
  EXPECT_EQ(environmentOf("", 999999999).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tracesmith::process
