#include "server/app.hpp"

#include <algorithm>
#include <filesystem>

#include "access/names.hpp"
#include "server/natural_order.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kFresh = std::chrono::milliseconds(200);

/// "/a/{id}/b" against "/a/7/b".
bool matches(std::string_view pattern, std::string_view path, std::map<std::string, std::string>& names) {
  names.clear();
  while (!pattern.empty() && !path.empty()) {
    const size_t p = std::min(pattern.find('/', 1), pattern.size()), q = std::min(path.find('/', 1), path.size());
    const std::string_view want = pattern.substr(0, p), have = path.substr(0, q);
    if (want.starts_with("/{")) {
      if (have.size() < 2) return false;
      names[std::string(want.substr(2, want.size() - 3))] = std::string(have.substr(1));
    } else if (want != have) {
      return false;
    }
    pattern.remove_prefix(p);
    path.remove_prefix(q);
  }
  return pattern.empty() && path.empty();
}

/// "host", "host:80", "[::1]:80" without the port.
std::string_view hostOf(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  return text.substr(0, text.rfind(':') == std::string_view::npos ? text.size() : text.rfind(':'));
}

std::string value(const std::map<std::string, std::string>& headers, const char* key) {
  auto it = headers.find(key);
  return it == headers.end() ? std::string() : it->second;
}

void allowOrigin(const Request& r, Answer& answer) {
  if (r.origin.empty()) return;
  answer.headers.emplace_back("Access-Control-Allow-Origin", r.origin);
  answer.headers.emplace_back("Vary", "Origin");
}

}  // namespace

Result<std::unique_ptr<App>> App::open(const Options& options, cluster::Server* master, const std::string& trace) {
  std::unique_ptr<App> app(new App());
  app->options_ = options;
  app->trace_path_ = trace;
  TS_TRY(access::checkListen(options.listen, options.security));
  app->guarded_ = !options.security.token_file.empty() || !options.security.tls_ca.empty();
  TS_TRY(app->guard_.open(options.security, master ? options.data_dir + "/master/audit.log" : "/dev/null"));
  if (master) app->client_ = master->client();
  app->traces_ = std::make_unique<Traces>(
      app->client_.get(), [a = app.get()](const std::string& id) { return a->session(id); }, trace,
      options.data_dir + "/master/http");
  TS_TRY(app->traces_->prepare());
  app->follower_ = std::thread([a = app.get()] { a->follow(); });
  return app;
}

App::~App() { stop(); }

void App::stop() {
  {
    std::lock_guard lock(live_mutex_);
    stop_ = true;
  }
  live_changed_.notify_all();
  if (follower_.joinable()) follower_.join();
}

bool App::admit(Request& r, const std::map<std::string, std::string>& headers, Answer& answer) {
  auto refuse = [&](Answer a) {
    answer = std::move(a);
    return false;
  };
  // A page of another site may reach a server on this machine, by its name or by one that leads here.
  const std::string host = value(headers, "host"), origin = value(headers, "origin");
  if (!guarded_ && !access::isLoopback(hostOf(host)))
    return refuse(Answer::error(403, "without tokens this server answers only to localhost and 127.0.0.1"));
  const bool own = origin.empty() || origin == "http://" + host || origin == "https://" + host;
  const bool allowed = std::find(options_.origins.begin(), options_.origins.end(), origin) != options_.origins.end();
  if (allowed) r.origin = origin;
  if (!allowed && !own) return refuse(Answer::error(403, "pages of " + origin.substr(0, 256) + " may not ask here"));
  if (allowed && r.method == "OPTIONS") {
    answer.status = 204;
    allowOrigin(r, answer);
    answer.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
    answer.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
    return false;
  }

  const Route* found = nullptr;
  std::string methods;
  for (const Route& route : routes()) {
    if (!matches(route.path, r.path, r.names)) continue;
    if (route.method == r.method) {
      found = &route;
      break;
    }
    methods += (methods.empty() ? "" : ", ") + std::string(route.method);
  }
  if (!found && !methods.empty()) {
    Answer wrong = Answer::error(405, r.method + " is not for " + r.path.substr(0, 256) + ": use " + methods);
    wrong.headers.emplace_back("Allow", methods);
    return refuse(std::move(wrong));
  }
  // The page itself holds no secret: it asks for the token.
  const bool asset = !found && r.method == "GET" && !r.path.starts_with("/api/");
  if (!found && !asset) return refuse(Answer::error(404, "there is no " + r.path.substr(0, 256) + " here"));

  std::string token = value(headers, "authorization"), why;
  if (token.starts_with("Bearer "))
    token = token.substr(7);
  else
    token = r.path == "/api/v1/events" ? r.get("token") : "";
  if (asset || found->role == access::Role::kNone) return true;
  r.role = guard_.check(r.peer, token, why);
  if (r.role == access::Role::kNone) {
    Answer no = Answer::error(why.starts_with("too many") ? 429 : 401,
                              token.empty() ? "a token is needed: Authorization: Bearer TOKEN" : why);
    no.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refuse(std::move(no));
  }
  if (r.role < found->role)
    return refuse(Answer::error(403, std::string("your token has the role ") + access::roleName(r.role) +
                                         "; this needs " + access::roleName(found->role)));
  return true;
}

Answer App::handle(const Request& request) {
  ++requests_;
  Request r = request;
  for (const Route& route : routes())
    if (route.method == r.method && matches(route.path, r.path, r.names)) {
      Answer answer = (this->*route.handler)(r);
      allowOrigin(r, answer);
      return answer;
    }
  return page(r);
}

Result<std::shared_ptr<const cluster::ClusterStatus>> App::snapshot() {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(snapshot_mutex_);
  if (snapshot_ && now - snapshot_time_ < kFresh) return snapshot_;
  Result<cluster::ClusterStatus> status = client_->status();
  if (!status) return status.status();
  std::sort(status->nodes.begin(), status->nodes.end(),
            [](const auto& a, const auto& b) { return naturalOrder(a.node, b.node) < 0; });
  snapshot_ = std::make_shared<const cluster::ClusterStatus>(std::move(*status));
  snapshot_time_ = now;
  return snapshot_;
}

Result<cluster::SessionInfo> App::session(const std::string& id) {
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return status.status();
  for (const cluster::SessionInfo& s : (*status)->sessions)
    if (s.id == id) return s;
  return Status::notFound("there is no trace " + id.substr(0, 64));
}

Answer App::noCluster() const {
  return Answer::error(404, "this is one recorded trace: there is no cluster behind it");
}

Answer App::audited(const Request& r, const char* action, const std::string& what, const Status& status,
                    Answer answer) {
  guard_.audit("http:" + r.peer, r.role, action, what.substr(0, 64), status);
  std::lock_guard lock(snapshot_mutex_);
  snapshot_.reset();
  return answer;
}

}  // namespace tracesmith::server
