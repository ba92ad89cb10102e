#include "server/http/listener.hpp"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "server/http/connection.hpp"
#include "server/http/head.hpp"
#include "server/http/limits.hpp"

namespace tracesmith::server {
namespace {

/// Of the connection this thread serves.
thread_local bool t_refuse = false;  // there are too many
thread_local bool t_close = false;   // what follows on it cannot be trusted
thread_local const Connection* t_connection = nullptr;

constexpr const char* kKeptEncoding = "X-Tracesmith-Accept-Encoding";

/// A thread for each connection, made when needed. For the one too many, the connection that has been silent longest
/// gives up its place; where none is silent, it is refused on the thread that accepts.
class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(std::function<bool()> make_room) : make_room_(std::move(make_room)) {}
  void enqueue(std::function<void()> work) override {
    {
      std::lock_guard lock(mutex_);
      const bool room = waiting_.size() < idle_ || threads_.size() < kConnections;
      if (room || (waiting_.size() < idle_ + kConnections / 2 && make_room_())) {
        waiting_.push_back(std::move(work));
        if (waiting_.size() > idle_ && threads_.size() < kConnections) threads_.emplace_back([this] { loop(); });
        some_.notify_one();
        return;
      }
    }
    t_refuse = true;
    work();
    t_refuse = false;
  }
  void shutdown() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    some_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      some_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  const std::function<bool()> make_room_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable some_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stop_ = false;
};

class HttpServer final : public httplib::Server {
 public:
  explicit HttpServer(std::unique_ptr<Tls> tls) : tls_(std::move(tls)) {
    new_task_queue = [this] { return new Threads([this] { return endSilent(); }); };
    set_keep_alive_max_count(100'000);
    set_keep_alive_timeout(std::chrono::seconds(kIdleTime).count());  // only said to clients
    // Not SO_REUSEPORT, the library's default: two servers would share a port without knowing.
    set_socket_options([](socket_t s) {
      const int on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    set_payload_max_length(kBodyBytes);
    set_error_handler(Handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      t_close = true;  // the library refused it half read
      const char* what = response.status == 413   ? "the body is larger than 1 MB"
                         : response.status == 414 ? "the URL is too long"
                         : response.status == 400 ? "this is not an HTTP request"
                         : response.status == 404 ? "not found"
                                                  : "the request cannot be answered";
      fill(Answer::error(response.status, what), response);
    }));
  }

  bool secure() const { return tls_ != nullptr; }

  int open(const std::string& host, uint16_t port) {
    const int got = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
    if (got > 0) ::listen(svr_sock_, 256);  // the library's own queue has 5
    return got;
  }

  void route(Admit admit, Handle handle) {
    admit_ = std::move(admit);
    handle_ = std::move(handle);
    set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
      Request request = read(in);
      Answer answer;
      if (const HeadProblem problem = checkHead(t_connection->head()); problem.status != 0) {
        t_close = true;
        fill(Answer::error(problem.status, problem.text), out);
        return httplib::Server::HandlerResponse::Handled;
      }
      std::map<std::string, std::string> headers;
      for (const auto& [key, value] : in.headers) headers.emplace(lower(key), value);
      const bool go_on = admit_(request, headers, answer);
      if (go_on && request.method == "POST" && headers.contains("content-length")) {
        admitted_ = std::move(request);
        return httplib::Server::HandlerResponse::Unhandled;
      }
      if (go_on)
        answer = answerTo(request);
      else if (request.method == "POST")
        t_close = true;  // its body is not read
      fill(std::move(answer), out);
      return httplib::Server::HandlerResponse::Handled;
    });
    Post("[\\s\\S]*", [this](const httplib::Request& in, httplib::Response& out) {
      admitted_.body = in.body;
      fill(answerTo(admitted_), out);
    });
  }

  /// Makes every thread that serves a connection come home.
  void endConnections() {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (socket_t s : sockets_) ::shutdown(s, SHUT_RDWR);
  }

 private:
  Answer answerTo(const Request& request) {
    noteSilence(t_connection->socket(), false);
    return handle_(request);
  }

  /// From its beginning until a request is whole, and again after each answer, a connection says nothing.
  void noteSilence(socket_t socket, bool begins) {
    std::lock_guard lock(mutex_);
    if (begins)
      silent_.emplace(socket, std::chrono::steady_clock::now());
    else
      silent_.erase(socket);
  }

  /// Ends the connection that has been silent longest; false: none is.
  bool endSilent() {
    std::lock_guard lock(mutex_);
    const auto oldest = std::min_element(silent_.begin(), silent_.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (oldest == silent_.end()) return false;
    ::shutdown(oldest->first, SHUT_RDWR);
    silent_.erase(oldest);
    return true;
  }

  static std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  }

  static Request read(const httplib::Request& in) {
    Request r;
    r.method = in.method == "HEAD" ? "GET" : in.method;
    r.path = in.path;
    r.peer = {"http:" + in.remote_addr, in.remote_addr, static_cast<uint16_t>(in.remote_port)};
    r.accept = in.get_header_value("Accept");
    r.gzip = in.get_header_value(kKeptEncoding).find("gzip") != std::string::npos;
    for (const auto& [key, value] : in.params) r.query[key] = value;
    r.socket = t_connection->socket();
    return r;
  }

  static void fill(Answer answer, httplib::Response& out) {
    out.status = answer.status;
    for (const auto& [key, value] : answer.headers) out.set_header(key, value);
    out.set_header("X-Content-Type-Options", "nosniff");
    if (answer.type == "application/json" && !out.has_header("Cache-Control"))
      out.set_header("Cache-Control", "no-store");
    if (!answer.stream) return out.set_content(std::move(answer.body), answer.type);
    out.set_chunked_content_provider(answer.type, [stream = std::move(answer.stream)](size_t, httplib::DataSink& sink) {
      const bool whole = stream([&](std::string_view piece) { return sink.write(piece.data(), piece.size()); });
      if (whole) sink.done();
      return whole;
    });
  }

  bool process_and_close_socket(socket_t socket) override {
    {
      std::lock_guard lock(mutex_);
      if (stopping_)
        ::shutdown(socket, SHUT_RDWR);
      else
        sockets_.insert(socket);
    }
    {
      Connection connection(socket);
      t_connection = &connection;
      if (!t_refuse) noteSilence(socket, true);
      if (t_refuse) {
        const std::string body = Answer::error(503, "too many connections: try again later").body;
        const std::string busy =
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: "
            "close\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body;
        if (!tls_) (void)connection.write(busy.data(), busy.size());
      } else if (!tls_ || connection.handshake(*tls_)) {
        bool closed = false;
        t_close = false;
        while (!closed && !t_close && connection.waitForRequest(kIdleTime)) {
          // Compression is ours: the library would take its time for it.
          auto prepare = [](httplib::Request& r) {
            r.set_header(kKeptEncoding, r.get_header_value("Accept-Encoding"));
            r.headers.erase("Accept-Encoding");
            r.ranges.clear();
          };
          if (!process_request(connection, false, closed, prepare)) break;
          noteSilence(socket, true);
        }
      }
    }
    {
      std::lock_guard lock(mutex_);
      sockets_.erase(socket);
      silent_.erase(socket);
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return true;
  }

  const std::unique_ptr<Tls> tls_;
  Admit admit_;
  Handle handle_;
  static thread_local Request admitted_;  // whose body is being read

  std::mutex mutex_;  // guards what follows
  std::set<socket_t> sockets_;
  std::map<socket_t, std::chrono::steady_clock::time_point> silent_;
  bool stopping_ = false;
};

thread_local Request HttpServer::admitted_;

class HttpListener final : public Listener {
 public:
  HttpListener(std::unique_ptr<HttpServer> server, uint16_t port) : server_(std::move(server)), port_(port) {}
  ~HttpListener() override {
    server_->endConnections();
    server_->stop();
    // stop() says nothing to a loop that has not begun.
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const override { return port_; }
  bool secure() const override { return server_->secure(); }
  void serve(Admit admit, Handle handle) override {
    server_->route(std::move(admit), std::move(handle));
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::unique_ptr<HttpServer> server_;
  const uint16_t port_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const std::string& host, uint16_t port,
                                                 const access::SecurityOptions& security) {
  Result<std::unique_ptr<Tls>> tls = Tls::open(security);
  if (!tls) return tls.status();
  auto server = std::make_unique<HttpServer>(std::move(*tls));
  const int got = server->open(host, port);
  if (got <= 0)
    return Status::io("cannot listen on " + host + ":" + std::to_string(port) +
                      ": the port is in use, or the address does not belong to this machine");
  return std::unique_ptr<Listener>(std::make_unique<HttpListener>(std::move(server), static_cast<uint16_t>(got)));
}

}  // namespace tracesmith::server
