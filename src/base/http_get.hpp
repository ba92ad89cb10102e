// A small HTTP server that answers GET with texts: enough for Prometheus and curl, and nothing to install.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8", body;
};

/// One connection at a time: each is answered and closed, and has two seconds for it. serve() runs on the caller's
/// thread; stop() may come from any thread or a signal handler.
class HttpGetServer {
 public:
  using Handler = std::function<HttpAnswer(const std::string& path)>;

  explicit HttpGetServer(Handler handler) : handler_(std::move(handler)) {}
  ~HttpGetServer();
  HttpGetServer(const HttpGetServer&) = delete;
  HttpGetServer& operator=(const HttpGetServer&) = delete;

  /// `port` 0: any free one; see port().
  Status listen(const std::string& address, int port);
  int port() const { return port_; }
  /// Until stop().
  Status serve();
  void stop();

 private:
  void answer(int connection);

  Handler handler_;
  int fd_ = -1, port_ = 0;
  int wake_[2] = {-1, -1};  // a pipe: stop() writes into it
};

}  // namespace tracesmith
