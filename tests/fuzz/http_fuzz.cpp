// What a client sends to the page's server, as any bytes, over a real connection to a server of one small trace. The
// first byte chooses the server: one with tokens (they are in the corpus), or one that goes by the Host header.
// Nothing may crash it, hang it or make it answer 500; it answers no more requests than a strict reader sees in the
// bytes (or a proxy in front of it would be led astray); bodies that say they are JSON are; and without tokens only
// this machine's names are answered.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <simdjson.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "access/names.hpp"
#include "base/interface_versions.hpp"
#include "server/api.hpp"
#include "server/http/fields.hpp"
#include "server/http/head.hpp"
#include "support/fuzz_scratch.hpp"
#include "tracesmith/trace/writer.hpp"

extern "C" tracesmith::server::Library* tracesmithCreateServer(const char* version, const char** why);

using namespace tracesmith;

namespace {

void check(bool good, int line = __builtin_LINE()) {
  if (good) return;
  std::fprintf(stderr, "http_fuzz.cpp:%d does not hold (errno %d)\n", line, errno);
  __builtin_trap();
}

std::string makeTrace() {
  const std::string path = test::scratch("http.sbt");
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path);
  check(writer.ok());
  const std::unique_ptr<trace::Appender> appender = (*writer)->appender();
  for (int64_t i = 0; i < 64; ++i) {
    trace::EventRow e;
    e.type = static_cast<int64_t>(i % 2 ? trace::EventType::kernel : trace::EventType::runtime);
    e.name = (*writer)->string(i % 2 ? "gemm" : "cudaLaunchKernel");
    e.node = (*writer)->string("node");
    e.rank = 0;
    e.pid = 1;
    e.ts = 1'700'000'000'000'000'000 + i * 1000;
    e.dur = 900;
    e.correlation = i / 2;
    if (i % 2)
      e.device = 0, e.stream = 7;
    else
      e.tid = 1;
    check(appender->append(e).ok());
  }
  check(appender->flush().ok() && (*writer)->close().ok());
  return path;
}

std::unique_ptr<server::Server> serve(bool tokens) {
  static const std::string trace = makeTrace();
  server::Options options;
  options.port = 0;
  options.data_dir = test::scratch("http.data");
  options.origins = {"https://x.example"};
  options.program = "/bin/false";  // no SQL here
  if (tokens) {
    options.security.token_file = test::scratch("http.tokens");
    test::writeScratch(options.security.token_file, "admin fuzz-admin-token-1\nviewer fuzz-viewer-token\n");
    check(::chmod(options.security.token_file.c_str(), 0600) == 0);
  }
  const char* why = nullptr;
  server::Library* library = tracesmithCreateServer(kServerInterface, &why);
  check(library != nullptr);
  Result<std::unique_ptr<server::Server>> made = library->serveFile(options, trace);
  check(made.ok());
  return std::move(*made);
}

/// The fuzzer's timer interrupts calls; a connection is made all the same.
bool connected(int fd, const sockaddr_in& to) {
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return true;
  if (errno != EINTR) return false;
  pollfd made{fd, POLLOUT, 0};
  while (::poll(&made, 1, -1) < 0)
    if (errno != EINTR) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/// What the server sends until it closes. Each connection has an address of its own: ports that were just used are not
/// free for a minute.
std::string exchange(uint16_t port, const std::string& bytes) {
  static uint32_t next = static_cast<uint32_t>(::getpid()) * 40503u;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(fd >= 0);
  sockaddr_in from{}, to{};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f000000u | (1 + next++ % 0xfffffd));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(port);
  check(::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
  check(connected(fd, to));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // it has closed
    at += static_cast<size_t>(n);
  }
  ::shutdown(fd, SHUT_WR);
  std::string got;
  char buffer[16384];
  for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0 || (n < 0 && errno == EINTR);) {
    if (n < 0) continue;
    got.append(buffer, static_cast<size_t>(n));
    if (got.find("\r\nContent-Type: text/event-stream\r\n") != got.npos) break;  // goes on for ever
  }
  ::close(fd);
  return got;
}

/// The value of a header, found without the code under test.
std::optional<std::string> header(std::string_view head, const std::string& name) {
  for (size_t at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() <= name.size() || line[name.size()] != ':' || ::strncasecmp(line.data(), name.data(), name.size()))
      continue;
    const size_t begin = line.find_first_not_of(" \t", name.size() + 1), end = line.find_last_not_of(" \t");
    return std::string(begin == line.npos ? "" : line.substr(begin, end + 1 - begin));
  }
  return {};
}

struct Asked {
  bool head_only;
  std::string host;
};

/// The requests a strict reader sees. The last may be wrong or cut.
std::vector<Asked> requestsIn(std::string_view bytes) {
  std::vector<Asked> all;
  while (!bytes.empty()) {
    const size_t end = bytes.find("\r\n\r\n");
    if (end == bytes.npos) {
      all.push_back({false, ""});
      break;
    }
    const std::string_view head = bytes.substr(0, end + 4);
    all.push_back({head.starts_with("HEAD "), header(head, "Host").value_or("")});
    if (server::checkHead(head).status != 0) break;
    const uint64_t length = std::strtoull(header(head, "Content-Length").value_or("0").c_str(), nullptr, 10);
    bytes.remove_prefix(head.size());
    const std::string body(bytes.substr(0, length));
    if (Result<server::Fields> fields = server::Fields::parse(body)) {
      std::string text;
      double number = 0;
      if (fields->text("name", text)) (void)access::checkName("name", text);
      if (fields->number("last_s", 0, 3600, number)) check(number >= 0 && number <= 3600);
    }
    if (length > bytes.size()) break;
    bytes.remove_prefix(length);
  }
  return all;
}

bool namesThisMachine(const std::string& host) {
  std::string name = host;
  if (name.starts_with('['))
    name = name.substr(1, name.find(']') - 1);
  else if (name.find(':') != name.npos)
    name.resize(name.find(':'));
  in_addr v4;
  in6_addr v6;
  if (::inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return ::strcasecmp(name.c_str(), "localhost") == 0 || ::inet_pton(AF_INET6, name.c_str(), &v6) == 1;
}

/// Takes a body from `rest`; empty: it is not whole.
std::optional<std::string> takeBody(std::string_view head, std::string_view& rest) {
  std::string body;
  if (header(head, "Transfer-Encoding") != "chunked") {
    const uint64_t length = std::strtoull(header(head, "Content-Length").value_or("0").c_str(), nullptr, 10);
    if (length > rest.size()) return {};
    body = rest.substr(0, length);
    rest.remove_prefix(length);
    return body;
  }
  for (;;) {
    const size_t line = rest.find("\r\n");
    if (line == rest.npos) return {};
    const uint64_t length = std::strtoull(std::string(rest.substr(0, line)).c_str(), nullptr, 16);
    if (length + line + 4 > rest.size()) return {};
    body += rest.substr(line + 2, length);
    rest.remove_prefix(line + 4 + length);
    if (length == 0) return body;
  }
}

void checkAnswers(std::string_view got, const std::vector<Asked>& asked, bool tokens) {
  simdjson::dom::parser parser;
  for (size_t answers = 0; !got.empty();) {
    const size_t end = got.find("\r\n\r\n");
    if (end == got.npos) return;  // cut
    const std::string_view head = got.substr(0, end + 4);
    check(head.starts_with("HTTP/1.1 ") && head.size() > 12);
    const int status = std::atoi(std::string(head.substr(9, 3)).c_str());
    got.remove_prefix(head.size());
    if (status == 100) continue;
    check(status >= 200 && status != 500);
    check(answers < asked.size());
    const Asked& request = asked[answers++];
    if (!tokens && status == 200) check(namesThisMachine(request.host));
    if (request.head_only || status == 204 || status == 304) continue;
    const std::optional<std::string> body = takeBody(head, got);
    if (!body) return;
    if (header(head, "Content-Type") == "application/json" && !header(head, "Content-Encoding"))
      check(parser.parse(*body).error() == simdjson::SUCCESS);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<server::Server> guarded = serve(true), open = serve(false);
  if (size < 1) return 0;
  const bool tokens = data[0] & 1;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<Asked> asked = requestsIn(bytes);
  checkAnswers(exchange((tokens ? guarded : open)->port(), bytes), asked, tokens);
  if (Result<access::Address> address = access::parseAddress(bytes, 80)) check(address->port != 0);
  return 0;
}
