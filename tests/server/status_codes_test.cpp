// Our codes over HTTP: the status line and the word in the body.
#include <gtest/gtest.h>

#include "server/http/message.hpp"

namespace tracesmith::server {
namespace {

TEST(StatusCodes, AsHttpNamesThem) {
  struct Case {
    Status status;
    int http;
    const char* word;
  };
  const Case kCases[] = {
      {Status::invalid("x"), 400, "bad_request"},
      {Status::unauthenticated("x"), 401, "unauthenticated"},
      {Status::forbidden("x"), 403, "forbidden"},
      {Status::notFound("x"), 404, "not_found"},
      {Status::busy("x"), 429, "too_many"},
      {Status::corrupt("x"), 500, "internal"},
      {Status::io("x"), 500, "internal"},
      {Status::unsupported("x"), 503, "unavailable"},
      {Status::exhausted("x"), 503, "unavailable"},
      {Status::cancelled("x"), 503, "unavailable"},
      {Status::unavailable("x"), 503, "unavailable"},
      {Status::timeout("x"), 504, "timeout"},
  };
  EXPECT_EQ(std::size(kCases) + 1, kCodes);  // and kOk
  EXPECT_EQ(httpStatus(Code::kOk), 200);
  for (const Case& c : kCases) {
    const Answer answer = Answer::error(c.status);
    EXPECT_EQ(answer.status, c.http) << int(c.status.code());
    EXPECT_EQ(answer.body, std::string("{\"error\":{\"code\":\"") + c.word + "\",\"message\":\"x\"}}");
  }
}

}  // namespace
}  // namespace tracesmith::server
