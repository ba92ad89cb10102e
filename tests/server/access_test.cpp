// Who may ask, what is refused, and what garbage does.
#include <sys/stat.h>

#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

class Access : public ServerFixture {
 protected:
  std::string tokens() {
    const std::string path = dir_ / "tokens";
    test::writeFile(path, "viewer viewer-token-0123456\noperator operator-token-0123\n");
    ::chmod(path.c_str(), 0600);
    return path;
  }
  static std::string bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }
};

TEST_F(Access, TokensHaveRoles) {
  serveMaster({"--token-file", tokens()});
  EXPECT_EQ(get(http_, "/api/v1/health").status, 200);
  Reply r = get(http_, "/api/v1/info");
  EXPECT_EQ(r.status, 401);
  EXPECT_TRUE(r.body.starts_with(error("unauthenticated")) && r.header("WWW-Authenticate: Bearer")) << r.body;
  r = get(http_, "/api/v1/info", bearer("viewer-token-0123456"));
  EXPECT_TRUE(r.status == 200 && r.has("\"role\":\"viewer\"")) << r.body;
  r = ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"s\"}", bearer("viewer-token-0123456"));
  EXPECT_EQ(r.status, 403);
  EXPECT_TRUE(r.body.starts_with(error("forbidden")) && r.has("this needs operator")) << r.body;
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"s\"}", bearer("operator-token-0123")).status, 201);
  for (const char* path : {"/api/v1/sessions/s", "/api/v1/nodes/n"})
    EXPECT_EQ(ask(http_, "DELETE", path, "", bearer("operator-token-0123")).status, 403) << path;
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  EXPECT_TRUE(has(audit, "\"peer\":\"http:127.0.0.1\"") && has(audit, "\"action\":\"start\"")) << audit;

  EXPECT_TRUE(has(audit, "\"action\":\"refused\",\"what\":\"GET /api/v1/info\",\"ok\":false")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"viewer\",\"action\":\"refused\",\"what\":\"POST /api/v1/sessions\"")) << audit;

  // EventSource cannot send a header; everything else must.
  RawConnection page(http_);
  page.send("GET /api/v1/events?token=viewer-token-0123456 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(has(page.readUntil("event: status"), "event: status"));
  EXPECT_EQ(get(http_, "/api/v1/info?token=viewer-token-0123456").status, 401);
}

TEST_F(Access, AnAdminDeletesSessionsAndRemovesNodes) {
  serveMaster();
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"s\"}").status, 201);
  Reply r = ask(http_, "DELETE", "/api/v1/sessions/s");
  EXPECT_TRUE(r.status == 400 && r.has("stop it first")) << r.body;
  EXPECT_EQ(ask(http_, "POST", "/api/v1/sessions/s/stop").status, 200);
  r = ask(http_, "DELETE", "/api/v1/sessions/s");
  EXPECT_TRUE(r.status == 200 && r.has("\"freed_bytes\":")) << r.body;
  EXPECT_EQ(ask(http_, "DELETE", "/api/v1/sessions/s").status, 404);
  EXPECT_EQ(ask(http_, "DELETE", "/api/v1/nodes/nobody").status, 404);
  EXPECT_TRUE(get(http_, "/api/v1/openapi.json").has("\"delete\":{\"summary\":\"Delete a session"));
  EXPECT_TRUE(has(test::readFile(dir_ / "m/master/audit.log"), "\"action\":\"delete\",\"what\":\"s\",\"ok\":true"));
}

TEST_F(Access, WhoGuessesIsSlowedDown) {
  serveMaster({"--token-file", tokens()});
  Reply last;
  for (int i = 0; i < 12; ++i) last = get(http_, "/api/v1/info", bearer("wrong-token-0123456" + std::to_string(i)));
  EXPECT_EQ(last.status, 429);
  EXPECT_TRUE(last.body.starts_with(error("too_many"))) << last.body;
  // Who is at the same address and has a token does not pay for it, and neither does who has none yet.
  EXPECT_EQ(get(http_, "/api/v1/info", bearer("viewer-token-0123456")).status, 200);
  EXPECT_EQ(get(http_, "/api/v1/info").status, 401);
}

TEST_F(Access, WithoutTokensOnlyTheSameUserMayAsk) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  serveMaster();
  ASSERT_EQ(::seteuid(65534), 0);
  const Reply r = get(http_, "/api/v1/info");
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(r.status, 401);
  EXPECT_TRUE(r.has("you are user 65534")) << r.body;
  EXPECT_EQ(get(http_, "/api/v1/info").status, 200);
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  EXPECT_TRUE(has(audit, "\"action\":\"refused\",\"what\":\"GET /api/v1/info\"")) << audit;
}

TEST_F(Access, PagesOfOtherSitesMayNotAsk) {
  serveMaster({"--http-origin", "https://grafana.example"});
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "127.evil.example:80", "localhost.evil.example",
                           "[::1]evil.example", "[::1].evil.example:80", "127.0.0.1:80:80", "evil@127.0.0.1", ""})
    EXPECT_EQ(get(http_, "/api/v1/info", "Host: " + std::string(host) + "\r\n").status, 403) << host;  // leads here
  for (const char* host : {"127.0.0.1", "127.8.9.10:80", "LocalHost:1", "[::1]", "[::1]:8091", "[::ffff:127.0.0.1]:1"})
    EXPECT_EQ(get(http_, "/api/v1/info", "Host: " + std::string(host) + "\r\n").status, 200) << host;
  EXPECT_EQ(get(http_, "/api/v1/info", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(ask(http_, "POST", "/profiling/start", "{}", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_TRUE(get(http_, "/api/v1/sessions").has("\"sessions\":[]"));
  Reply r = get(http_, "/api/v1/info", "Origin: https://grafana.example\r\n");
  EXPECT_EQ(r.status, 200);
  EXPECT_TRUE(r.header("Access-Control-Allow-Origin: https://grafana.example")) << r.head;
  r = ask(http_, "OPTIONS", "/api/v1/query", "", "Origin: https://grafana.example\r\n");
  EXPECT_EQ(r.status, 204);
  EXPECT_TRUE(r.header("Access-Control-Allow-Methods: GET, POST, DELETE")) << r.head;
  r = get(http_, "/api/v1/info", "Origin: http://localhost\r\n");  // our own page
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.head.find("Access-Control"), std::string::npos);
}

TEST_F(Access, TlsAsksForTheCertificateOfTheAuthority) {
  if (test::run({"openssl", "version"}).rc != 0) GTEST_SKIP() << "openssl is not installed";
  const std::string certs = dir_ / "certs";
  ASSERT_EQ(test::tracesmith({"cluster", "certs", "-o", certs}).rc, 0);
  const std::string list = test::run({"ls", certs}).out;
  http_port_ = "-1";
  startMaster(
      {"--tls-cert", certs + "/server.pem", "--tls-key", certs + "/server-key.pem", "--tls-ca", certs + "/ca.pem"});
  ASSERT_TRUE(eventually([&] { return has(master_->out(), "https://"); })) << master_->err() << list;
  http_ = portOf(master_->out().substr(master_->out().find("https://")), "127.0.0.1:");
  auto client = [&](std::vector<std::string> more) {
    std::vector<std::string> argv = {"openssl",
                                     "s_client",
                                     "-quiet",
                                     "-connect",
                                     "127.0.0.1:" + std::to_string(http_),
                                     "-CAfile",
                                     certs + "/ca.pem",
                                     "-verify_return_error"};
    argv.insert(argv.end(), more.begin(), more.end());
    return test::run(argv, "GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").out;
  };
  EXPECT_TRUE(has(client({"-cert", certs + "/client.pem", "-key", certs + "/client-key.pem"}), "\"mode\":\"cluster\""))
      << list;
  EXPECT_FALSE(has(client({}), "HTTP/1.1"));        // no certificate
  EXPECT_EQ(get(http_, "/api/v1/info").status, 0);  // no TLS
}

TEST_F(Access, EveryRefusalHasTheOneShape) {
  serveMaster();
  Reply r = get(http_, "/api/v1/nothing");
  EXPECT_EQ(r.status, 404);
  EXPECT_TRUE(r.body.starts_with(error("not_found"))) << r.body;
  r = ask(http_, "DELETE", "/api/v1/sessions");
  EXPECT_EQ(r.status, 405);
  EXPECT_TRUE(r.body.starts_with(error("method_not_allowed")) && r.header("Allow: GET, POST")) << r.head;
  r = ask(http_, "POST", "/api/v1/sessions", std::string(2 << 20, 'x'));
  EXPECT_TRUE(r.status == 413 || r.status == 0) << r.status;  // it does not wait for the rest
  r = get(http_, "/" + std::string(20000, 'x'));
  EXPECT_EQ(r.status, 414);
  EXPECT_TRUE(r.body.starts_with(error("too_large"))) << r.body;
  for (const char* path : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../../etc/passwd",
                           "/api/v1/traces/..%2f..%2fx/timeline", "/%00", "/a%0ab"}) {
    r = get(http_, path);
    EXPECT_EQ(r.status, 404) << path;
    EXPECT_FALSE(r.has("root:")) << path;
  }
}

TEST_F(Access, GarbageAndSlowClientsDoNotStopIt) {
  serveMaster();
  for (const std::string& bytes : std::vector<std::string>{
           std::string("garbage\r\n\r\n"), std::string(100000, '\xff'), std::string("\x16\x03\x01\x02\x00\x01", 6),
           "GET / HTTP/1.1\r\n" + std::string(200000, 'a') + "\r\n\r\n",
           "POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
           std::string("POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
           std::string("GET /api/v1/info HTTP/1.1\r\nHost: localhost\r\nRange: bytes=5-1\r\n\r\n")}) {
    RawConnection c(http_);
    (void)c.send(bytes);
    ASSERT_EQ(get(http_, "/api/v1/health").status, 200);
  }
  // A drip of header lines ends after ten seconds, however regular it is; meanwhile others are served.
  RawConnection slow(http_);
  ASSERT_TRUE(slow.send("GET / HTTP/1.1\r\nHost: localhost\r\n"));
  const bool ended = eventually([&] { return get(http_, "/api/v1/health").status == 200 && !slow.send("X-A: b\r\n"); });
  EXPECT_TRUE(ended);
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 300000; ++i) many += "X-A: b\r\n";  // more than a request may have
  RawConnection huge(http_);
  (void)huge.send(many);
  EXPECT_EQ(huge.readAll().find("HTTP/1.1 200"), std::string::npos);
  EXPECT_EQ(get(http_, "/api/v1/health").status, 200);
  EXPECT_TRUE(master_->running());
}

/// What a proxy in front of us could read otherwise than we do: where a request ends.
TEST_F(Access, NoRequestHidesInAnother) {
  serveMaster();
  const std::string inner = "GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    begin = " HTTP/1.1\r\nHost: localhost\r\n";
  const std::string length = "Content-Length: " + std::to_string(inner.size()) + "\r\n";
  const std::string post = "POST /api/v1/sessions" + begin, ask = "GET /api/v1/info" + begin;
  const std::vector<std::pair<std::string, int>> heads = {
      {ask + length, 400},
      {ask + "Transfer-Encoding: chunked\r\n", 411},
      {post + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 411},
      {post + "Content-Length: 0\r\n" + length, 400},
      {post + length + length, 400},
      {post + "Content-Length: %30\r\n", 400},
      {post + "Content-Length: +0\r\n", 400},
      {post + "Content-Length : 0\r\n", 400},
      {post + "Content-Length: 0\r\n Content-Length: 9\r\n", 400},
      {post + "Content-Length: 0\r\nX: y\n" + length, 400},
      {ask + "Host: 127.0.0.1\r\n", 400},
      {post + "Content-Encoding: gzip\r\n" + length, 415},
  };
  for (const auto& [head, status] : heads) {
    RawConnection c(http_);
    ASSERT_TRUE(c.send(head + "\r\n" + inner));
    const std::string all = c.readAll();
    EXPECT_EQ(parseReply(all).status, status) << head;
    EXPECT_EQ(all.find("HTTP/1.1 ", 1), std::string::npos) << head << all;  // one answer
  }
  EXPECT_EQ(server::ask(http_, "POST", "/api/v1/sessions", "{\"name\":\"s\"}").status, 201);
}

TEST_F(Access, SilentConnectionsMakeRoomForOthers) {
  serveMaster();
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 600; ++i) {
    silent.push_back(std::make_unique<RawConnection>(http_));
    ASSERT_TRUE(silent.back()->open()) << i;
    if (i % 2) (void)silent.back()->send("GET / HTTP/1.1\r\n");
  }
  EXPECT_EQ(get(http_, "/api/v1/health").status, 200);
}

}  // namespace
}  // namespace tracesmith::server
