// The entry of libtracesmith_server.so.
#include <cstring>

#include "base/interface_versions.hpp"
#include "base/library.hpp"
#include "server/app/app.hpp"
#include "server/http/listener.hpp"

namespace tracesmith::server {
namespace {

class ServerImpl final : public Server {
 public:
  ~ServerImpl() override {
    if (app_) app_->stop();  // those who wait for news go
    listener_.reset();
  }
  Status start(const Options& options, cluster::Server* master, const std::string& trace) {
    Result<std::unique_ptr<Listener>> listener = Listener::open(options.listen, options.port, options.security);
    if (!listener) return listener.status();
    Result<std::unique_ptr<App>> app = App::open(options, master, trace);
    if (!app) return app.status();
    app_ = std::move(*app);
    listener_ = std::move(*listener);
    app_->setPort(listener_->port());
    listener_->serve(
        [a = app_.get()](Request& r, const auto& headers, Answer& answer) { return a->admit(r, headers, answer); },
        [a = app_.get()](const Request& r) { return a->handle(r); });
    return {};
  }
  uint16_t port() const override { return listener_->port(); }
  bool secure() const override { return listener_->secure(); }

 private:
  std::unique_ptr<App> app_;
  std::unique_ptr<Listener> listener_;
};

class LibraryImpl final : public Library {
 public:
  Result<std::unique_ptr<Server>> serveCluster(const Options& options, cluster::Server& master) override {
    return start(options, &master, {});
  }
  Result<std::unique_ptr<Server>> serveFile(const Options& options, const std::string& trace) override {
    return start(options, nullptr, trace);
  }

 private:
  static Result<std::unique_ptr<Server>> start(const Options& options, cluster::Server* master,
                                               const std::string& trace) {
    auto server = std::make_unique<ServerImpl>();
    TS_TRY(server->start(options, master, trace));
    return std::unique_ptr<Server>(std::move(server));
  }
};

}  // namespace
}  // namespace tracesmith::server

extern "C" __attribute__((visibility("default"))) tracesmith::server::Library* tracesmithCreateServer(
    const char* version, const char** why) {
  if (std::strcmp(version, tracesmith::kServerInterface) != 0) {
    *why = tracesmith::kOtherVersion;
    return nullptr;
  }
  static tracesmith::server::LibraryImpl library;
  return &library;
}
