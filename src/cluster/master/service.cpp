#include "cluster/master/service.hpp"

#include <sys/resource.h>

#include "cluster/master/live_alerts.hpp"
#include "cluster/master/local_client.hpp"
#include "cluster/master/service_calls.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {
namespace {

class MasterServer final : public Server {
 public:
  Status start(MasterOptions options) {
    TS_TRY(access::checkListen(options.listen, options.security));
    options.data_dir += "/master";
    raiseFileLimit();
    Result<std::unique_ptr<Master>> master = Master::open(options);
    if (!master) return master.status();
    master_ = std::move(*master);
    TS_TRY(guard_.open(options.security, options.data_dir + "/audit.log"));
    Result<std::unique_ptr<AlertSender>> alerts = watchFor(options);
    if (!alerts) return alerts.status();
    alerts_ = std::move(*alerts);
    service_ = makeMasterService(*master_, guard_, options);
    port_ = options.port;
    Result<std::unique_ptr<grpc::Server>> server =
        startServer(service_->calls(), options.listen, port_, options.security);
    if (!server) return server.status();
    server_ = std::move(*server);
    guard_.setPort(port_);
    // The same number as the service: one port to open. Without it clocks are compared over the service itself.
    Result<std::unique_ptr<sync::ExchangeServer>> exchange = sync::ExchangeServer::start(
        options.listen, port_, service_->syncKey(), [m = master_.get()] { return m->referenceNow(); });
    if (exchange) exchange_ = std::move(*exchange);
    service_->setPorts(port_, exchange_ ? exchange_->port() : 0);
    master_->declared().start([this](const std::string& address) { return service_->invite(address); },
                              [m = master_.get()](const std::string& node) { return m->connected(node); });
    return {};
  }
  ~MasterServer() override {
    if (master_) master_->declared().stop();
    if (master_) master_->questions().close();  // calls that wait for answers end
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  }
  uint16_t port() const override { return port_; }
  std::string name() const override { return "master"; }
  NodeStatus status() const override { return {}; }
  Status startCapture() override { return Status::unsupported("a master captures with sessions"); }
  Status stopCapture() override { return startCapture(); }
  Status exportTrace(const std::string&) override { return startCapture(); }
  std::unique_ptr<Client> client() override {
    return makeLocalClient(*master_, [this](const std::string& address) { return service_->invite(address); });
  }

 private:
  /// Every agent takes a connection and an open file.
  static void raiseFileLimit() {
    rlimit limit;
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }

  /// Alerts of the watcher go out, and a hang is kept.
  Result<std::unique_ptr<AlertSender>> watchFor(const MasterOptions& options) {
    auto audit = [this](const std::string& action, const std::string& what, const Status& outcome) {
      guard_.audit("watcher", access::Role::kOperator, action, what, outcome);
    };
    Result<std::unique_ptr<AlertSender>> sender = AlertSender::create(options.webhook, options.on_alert, audit);
    if (!sender) return sender;
    master_->watch().setSink([audit, master = master_.get(), out = sender->get(), freeze_s = options.freeze_s](
                                 const Alert& alert, const analysis::live::HangVerdict& verdict) {
      audit("alert", nameOf(alert.kind) + std::string(": ") + alert.text.substr(0, 1024), {});
      if (alert.kind == AlertKind::hang && freeze_s > 0) {
        Result<SessionInfo> session = freeze(*master, freeze_s);
        audit("freeze", session ? session->name : "", session.status());
      }
      out->send(alert, verdict);
    });
    return sender;
  }

  access::Guard guard_;
  std::unique_ptr<AlertSender> alerts_;  // before the master, whose watcher uses it
  std::unique_ptr<Master> master_;
  std::unique_ptr<MasterService> service_;
  std::unique_ptr<sync::ExchangeServer> exchange_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> startMasterServer(const MasterOptions& options) {
  auto server = std::make_unique<MasterServer>();
  TS_TRY(server->start(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tracesmith::cluster
