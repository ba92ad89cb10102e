// TLS and certificates, with real processes: who has the right ones comes in, everybody else gets one clear line.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <algorithm>

#include "cluster/cluster_fixture.hpp"
#include "cluster/rpc/certs.hpp"
#include "tracesmith_cluster.grpc.pb.h"

namespace tracesmith::cluster {
namespace {

class Tls : public ClusterFixture {
 protected:
  std::string certs(const std::string& name, const std::string& authority = "", int64_t valid_from_s = 0) {
    CertificateOptions options;
    options.folder = dir_ / name;
    options.authority = authority;
    options.valid_from_s = valid_from_s;
    if (valid_from_s != 0) options.days = 1;
    EXPECT_TRUE(makeCertificates(options));
    return options.folder;
  }
  static std::vector<std::string> flags(const std::string& ca, const std::string& folder, const std::string& who) {
    std::vector<std::string> all = {"--tls-ca", ca + "/ca.pem"};
    if (!folder.empty())
      all.insert(all.end(), {"--tls-cert", folder + "/" + who + ".pem", "--tls-key", folder + "/" + who + "-key.pem"});
    return all;
  }
  /// What `cluster nodes` says with these flags; empty if it works.
  std::string refused(const std::vector<std::string>& security) {
    const Output o = command({"nodes"}, security);
    EXPECT_LE(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    return o.rc == 0 ? "" : o.err;
  }
};

TEST_F(Tls, CertificatesAreMadeOnceAndKeysAreTheOwnersAlone) {
  const std::string folder = dir_ / "new/certs";
  Output o = test::tracesmith({"cluster", "certs", "-o", folder, "--host", "head", "10.0.0.7"});
  ASSERT_EQ(o.rc, 0) << o.err;
  for (const char* name : {"ca", "server", "client"}) {
    struct stat st;
    ASSERT_EQ(::stat((folder + "/" + name + "-key.pem").c_str(), &st), 0) << name;
    EXPECT_EQ(st.st_mode & 0777, 0600u) << name;
    EXPECT_TRUE(checkCertificate(folder + "/" + name + ".pem")) << name;
  }
  const std::string before = test::readFile(folder + "/ca-key.pem");
  o = test::tracesmith({"cluster", "certs", "-o", folder});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "nothing was overwritten")) << o.err;
  EXPECT_EQ(test::readFile(folder + "/ca-key.pem"), before);
  o = test::tracesmith({"cluster", "certs", "-o", dir_ / "x", "--host", "a,DNS:evil"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "neither the name nor the address of a host")) << o.err;
  EXPECT_FALSE(test::exists(dir_ / "x/ca.pem"));
}

TEST_F(Tls, AgentMasterAndClientsMeetByCertificate) {
  const std::string own = certs("own"), other = certs("other");
  startMaster(flags(own, own, "server"));
  auto a = agent("alpha", flags(own, own, "server"));
  auto connectedNow = [&] {
    return has(command({"nodes", "--json"}, flags(own, own, "client")).out, "\"connected\":true");
  };
  ASSERT_TRUE(eventually(connectedNow)) << a->err();
  EXPECT_EQ(refused(flags(own, own, "client")), "");
  const std::string hung_up = "it closed the connection: it requires TLS with a certificate it accepts";
  EXPECT_TRUE(has(refused({}), hung_up)) << refused({});
  EXPECT_TRUE(has(refused(flags(own, "", "")), hung_up)) << refused(flags(own, "", ""));
  EXPECT_TRUE(has(refused(flags(own, other, "client")), hung_up)) << refused(flags(own, other, "client"));
  EXPECT_TRUE(has(refused(flags(other, own, "client")), "its certificate is not signed by the authority in --tls-ca"));
  auto stranger = agent("stranger", flags(own, other, "server"));
  EXPECT_TRUE(eventually([&] { return has(stranger->err(), hung_up); })) << stranger->err();
  // A certificate of the same authority made later is as good; the master dials agents with its own.
  const std::string later = certs("later", own);
  EXPECT_EQ(refused(flags(own, later, "client")), "");
  ASSERT_EQ(command({"record", "-o", dir_ / "r.sbt", "-d", "0.1"}, flags(own, own, "client")).rc, 0);
}

TEST_F(Tls, AnInvitationGoesOverTlsToo) {
  const std::string own = certs("own");
  startMaster(flags(own, own, "server"));
  const std::string port = std::to_string(freePort());
  std::vector<std::string> argv = {TRACESMITH_BIN, "cluster",  "agent",     "--port", port,
                                   "--data-dir",   dir_ / "a", "--node-id", "added"};
  for (const std::string& flag : flags(own, own, "server")) argv.push_back(flag);
  Child a(argv, environment());
  ASSERT_TRUE(eventually([&] { return has(a.out(), "listens"); }));
  const Output o = command({"add-node", "--address", "127.0.0.1:" + port}, flags(own, own, "client"));
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(eventually([&] { return has(a.err(), "connected to the master"); })) << a.err();
}

TEST_F(Tls, WhatHasExpiredIsRefusedOnBothSides) {
  const std::string own = certs("own");
  const std::string old = certs("old", own, ::time(nullptr) - 30 * 86400);
  // We say it ourselves, of a server's certificate and of a client's, before anybody connects.
  std::vector<std::string> argv = {"cluster", "master", "--port", "0", "--data-dir", dir_ / "x"};
  for (const std::string& flag : flags(own, old, "server")) argv.push_back(flag);
  const Output server = test::tracesmith(argv);
  EXPECT_EQ(server.rc, 1);
  EXPECT_TRUE(has(server.err, "old/server.pem expired on ")) << server.err;
  startMaster(flags(own, own, "server"));
  EXPECT_TRUE(has(refused(flags(own, old, "client")), "old/client.pem expired on "));
  // And who does not look gets no further.
  auto call = [&](const std::string& folder) {
    grpc::SslCredentialsOptions options{test::readFile(own + "/ca.pem"), test::readFile(folder + "/client-key.pem"),
                                        test::readFile(folder + "/client.pem")};
    auto stub = ClusterService::NewStub(grpc::CreateChannel(address(), grpc::SslCredentials(options)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    GetStatusResponse response;
    return stub->GetStatus(&context, GetStatusRequest(), &response).ok();
  };
  EXPECT_TRUE(call(own));
  EXPECT_FALSE(call(old));
}

TEST_F(Tls, AKeyThatOthersMayReadIsNotUsed) {
  const std::string own = certs("own");
  ::chmod((own + "/client-key.pem").c_str(), 0644);
  startMaster(flags(own, own, "server"));
  EXPECT_TRUE(has(refused(flags(own, own, "client")), "chmod 600"));
  EXPECT_TRUE(has(refused({"--tls-cert", own + "/client.pem"}), "TLS needs both --tls-cert and --tls-key"));
  EXPECT_TRUE(has(refused({"--tls-ca", own + "/ca-key.pem"}), "is not a PEM certificate"));
}

}  // namespace
}  // namespace tracesmith::cluster
