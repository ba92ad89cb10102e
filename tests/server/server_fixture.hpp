// Real servers, as users start them: the page of a trace, or of a master with agents.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cluster/cluster_fixture.hpp"
#include "server/http_client.hpp"
#include "support/small_job.hpp"

namespace tracesmith::server {

using test::eventually;
using test::Output;

class ServerFixture : public cluster::ClusterFixture {
 protected:
  /// The number after `key` in what a server printed.
  static uint16_t portOf(const std::string& text, const std::string& key) {
    const size_t at = text.find(key);
    return at == std::string::npos ? 0 : static_cast<uint16_t>(std::atoi(text.c_str() + at + key.size()));
  }
  /// `tracesmith view FILE --web`, ready to answer.
  void serveFile(const std::string& file) {
    server_ = std::make_unique<test::Child>(
        std::vector<std::string>{TRACESMITH_BIN, "view", file, "--web", "--port", "0", "--json"});
    ASSERT_TRUE(test::eventually([&] { return !server_->out().empty() || !server_->running(); }));
    http_ = portOf(server_->out(), "\"port\":");
    ASSERT_NE(http_, 0) << server_->err();
    ASSERT_TRUE(test::eventually([&] { return get(http_, trace("/timeline")).status == 200; }));
  }
  /// A master with its page.
  void serveMaster(std::vector<std::string> more = {}) {
    http_port_ = "-1";
    startMaster(std::move(more));
    ASSERT_TRUE(test::eventually([&] { return has(master_->out(), "HTTP API"); })) << master_->err();
    http_ = portOf(master_->out().substr(master_->out().find("HTTP API")), "127.0.0.1:");
    ASSERT_NE(http_, 0);
  }
  static std::string trace(const std::string& path) { return "/api/v1/traces/file" + path; }
  static std::string error(const std::string& code) { return "{\"error\":{\"code\":\"" + code + "\",\"message\":\""; }

  uint16_t http_ = 0;
  std::unique_ptr<test::Child> server_;
};

}  // namespace tracesmith::server
