#include "server/app/app.hpp"

#include <algorithm>
#include <filesystem>

#include "access/names.hpp"

namespace tracesmith::server {
namespace {

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

/// Whether a Host header ("host", "host:80", "[::1]:80") names this machine.
bool namesLoopback(std::string_view host) {
  const Result<access::Address> address = access::parseAddress(host, 80);
  return address && access::isLoopback(address->host);
}

std::string value(const std::map<std::string, std::string>& headers, const char* key) {
  auto it = headers.find(key);
  return it == headers.end() ? std::string() : it->second;
}

void allowOrigin(const Request& r, Answer& answer) {
  if (r.origin.empty()) return;
  answer.headers.emplace_back("Access-Control-Allow-Origin", r.origin);
  answer.headers.emplace_back("Access-Control-Expose-Headers", "X-Row-Count, X-Truncated");
  answer.headers.emplace_back("Vary", "Origin");
}

}  // namespace

Result<std::unique_ptr<App>> App::open(const Options& options, cluster::Server* master, const std::string& trace) {
  TS_TRY(access::checkListen(options.listen, options.security));
  std::unique_ptr<App> app(new App());
  App& a = *app;
  a.options_ = options;
  a.trace_path_ = trace;
  if (a.options_.title.empty()) a.options_.title = std::filesystem::path(trace).filename().string();
  a.guarded_ = !options.security.token_file.empty() || !options.security.tls_ca.empty();
  TS_TRY(a.guard_.open(options.security, master ? options.data_dir + "/master/audit.log" : "/dev/null"));
  if (master) a.cluster_ = std::make_unique<ClusterView>(master->client());
  if (master && !options.frames.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.frames, error);
    if (!std::filesystem::is_directory(options.frames, error))
      return Status::io("cannot create the folder " + options.frames);
    a.frames_ = std::make_unique<FramesWriter>(*a.cluster_, options.frames);
  }
  std::vector<Traces::File> files;
  if (!master) files.push_back({trace, a.options_.title});
  if (!master && !options.other.empty()) files.push_back({options.other, options.other_title});
  a.traces_ = std::make_unique<Traces>(
      master ? &a.cluster_->client() : nullptr, [&a](const std::string& id) { return a.cluster_->session(id); },
      std::move(files), options.data_dir + "/master/http");
  TS_TRY(a.traces_->prepare());
  a.live_ = std::make_unique<LiveFeed>(a.cluster_.get());
  a.sources_ = std::make_unique<Sources>(Sources{a.options_, a.trace_path_, a.guard_, a.cluster_.get(), a.frames_.get(),
                                                 *a.traces_, *a.live_, a.routes_, a.requests_});
  for (auto make : {makeInfoHandlers, makeClusterHandlers, makeHardwareHandlers, makeSelectHandlers, makePlaceHandlers,
                    makeLiveHandlers, makeMetricHandlers, makePrometheusHandlers, makeTraceHandlers, makeQueryHandlers,
                    makeGswarmHandlers, makeBalanceHandlers}) {
    a.handlers_.push_back(make(*a.sources_));
    for (Route& route : a.handlers_.back()->routes()) a.routes_.push_back(std::move(route));
  }
  return app;
}

App::~App() = default;

Answer App::refuse(const Request& r, const std::string& why) {
  const Status status = Status::forbidden(why);
  guard_.refused(r.peer, access::Role::kNone, r.method + " " + r.path, status);
  return Answer::error(status);
}

/// A page of another site may reach a server on this machine, by its name or by one that leads here.
bool App::admitOrigin(Request& r, const std::map<std::string, std::string>& headers, Answer& answer) {
  const std::string host = value(headers, "host"), origin = value(headers, "origin");
  if (!guarded_ && !namesLoopback(host)) {
    answer = refuse(r, "without tokens, this server only answers requests to localhost and 127.0.0.1");
    return false;
  }
  const bool own = origin.empty() || origin == "http://" + host || origin == "https://" + host;
  const bool allowed = std::find(options_.origins.begin(), options_.origins.end(), origin) != options_.origins.end();
  if (allowed) r.origin = origin;
  if (!allowed && !own) {
    answer = refuse(r, "pages from " + origin.substr(0, 256) + " may not use this server");
    return false;
  }
  if (!allowed || r.method != "OPTIONS") return true;
  answer.status = 204;
  allowOrigin(r, answer);
  answer.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE");
  answer.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
  return false;
}

bool App::admitRole(Request& r, const std::map<std::string, std::string>& headers, const Route& route, Answer& answer) {
  if (route.role == access::Role::kNone) return true;
  std::string token = value(headers, "authorization");
  if (token.starts_with("Bearer "))
    token = token.substr(7);
  else
    token = r.path == "/api/v1/events" ? r.get("token") : "";
  const Status status = guard_.admit(r.peer, token, route.role, r.role, r.method + " " + r.path);
  if (status) return true;
  answer = Answer::error(status);
  if (r.role != access::Role::kNone) return false;
  if (token.empty() && guarded_)
    answer = Answer::error(answer.status, "a token is required: Authorization: Bearer TOKEN");
  answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return false;
}

bool App::admit(Request& r, const std::map<std::string, std::string>& headers, Answer& answer) {
  if (!admitOrigin(r, headers, answer)) return false;
  std::string methods;
  for (const Route& route : routes_) {
    if (!matches(route.path, r.path, r.names)) continue;
    if (route.method == r.method) return admitRole(r, headers, route, answer);
    methods += (methods.empty() ? "" : ", ") + std::string(route.method);
  }
  if (!methods.empty()) {
    answer = Answer::error(405, r.path.substr(0, 256) + " does not accept " + r.method + ": use " + methods);
    answer.headers.emplace_back("Allow", methods);
    return false;
  }
  // The page itself holds no secret: it asks for the token.
  if (r.method == "GET" && !r.path.starts_with("/api/")) return true;
  answer = Answer::error(404, "there is no " + r.path.substr(0, 256) + " here");
  return false;
}

Answer App::handle(const Request& request) {
  ++requests_;
  Request r = request;
  for (const Route& route : routes_)
    if (route.method == r.method && matches(route.path, r.path, r.names)) {
      Answer answer = route.handler(r);
      allowOrigin(r, answer);
      return answer;
    }
  return pageFile(r);
}

}  // namespace tracesmith::server
