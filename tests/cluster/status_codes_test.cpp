// Our codes over gRPC: what one side says arrives at the other.
#include <gtest/gtest.h>

#include <set>

#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {
namespace {

TEST(StatusCodes, EveryCodeTravels) {
  std::set<grpc::StatusCode> used;
  for (size_t i = 0; i < kCodes; ++i) {
    const Code code = static_cast<Code>(i);
    const grpc::Status there = toGrpc(Status(code, "why"));
    EXPECT_TRUE(used.insert(there.error_code()).second) << i;
    const Status back = fromGrpc(there, "cannot reach it");
    EXPECT_EQ(back.code(), code) << i;
    EXPECT_TRUE(code == Code::kOk || back.message().ends_with("why")) << back.message();
  }
}

TEST(StatusCodes, WhyNobodyAnsweredIsSaidForPeople) {
  auto said = [](const char* text) {
    return fromGrpc({grpc::StatusCode::UNAVAILABLE, text}, "cannot reach the master at a:1").message();
  };
  EXPECT_EQ(said("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to "
                 "remote host: Connection refused"),
            "cannot reach the master at a:1: nothing listens there. Is it running, and is this its port?");
  EXPECT_EQ(said("DNS resolution failed for a:1: C-ares status is not ARES_SUCCESS"),
            "cannot reach the master at a:1: there is no host of this name");
  EXPECT_EQ(said("failed to connect to all addresses; last error: UNKNOWN: something new"),
            "cannot reach the master at a:1: it closed the connection");
  for (const char* raw :
       {"failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:1: Trying to connect "
        "an http1.x server",
        "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing "
        "HTTP/2"})
    EXPECT_EQ(said(raw),
              "cannot reach the master at a:1: what listens there is something else. Is this its port (50051 by "
              "default), and not the one of its page?");
  EXPECT_EQ(fromGrpc({grpc::StatusCode::UNKNOWN, "Stream removed"}, "cannot reach a").message(),
            "cannot reach a: it closed the connection");
  EXPECT_EQ(said("the node is away"), "cannot reach the master at a:1: the node is away") << "our own words stay";
}

TEST(StatusCodes, AsGrpcNamesThem) {
  using G = grpc::StatusCode;
  const std::pair<Status, G> kCases[] = {
      {Status(), G::OK},
      {Status::invalid("x"), G::FAILED_PRECONDITION},
      {Status::notFound("x"), G::NOT_FOUND},
      {Status::corrupt("x"), G::DATA_LOSS},
      {Status::io("x"), G::INTERNAL},
      {Status::unsupported("x"), G::UNIMPLEMENTED},
      {Status::exhausted("x"), G::RESOURCE_EXHAUSTED},
      {Status::busy("x"), G::ABORTED},
      {Status::timeout("x"), G::DEADLINE_EXCEEDED},
      {Status::cancelled("x"), G::CANCELLED},
      {Status::unavailable("x"), G::UNAVAILABLE},
      {Status::unauthenticated("x"), G::UNAUTHENTICATED},
      {Status::forbidden("x"), G::PERMISSION_DENIED},
  };
  for (const auto& [status, code] : kCases) EXPECT_EQ(toGrpc(status).error_code(), code) << int(status.code());
  // What only gRPC says.
  EXPECT_EQ(fromGrpc({G::UNKNOWN, "x"}, "w").code(), Code::kIo);
  EXPECT_EQ(fromGrpc({G::UNIMPLEMENTED, ""}, "at x").message(), "at x: the server there does not know this request");
}

}  // namespace
}  // namespace tracesmith::cluster
