#include "sink/http.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

#include <httplib.h>

#include "base/file.hpp"

namespace tracesmith::sink {
namespace {

constexpr int kConnectS = 5;
constexpr size_t kMostTold = 200;  // characters of an answer that refuses something

/// "remote-write" → TRACESMITH_REMOTE_WRITE_AUTHORIZATION
std::string variableOf(const std::string& sink) {
  std::string name = "TRACESMITH_";
  for (char c : sink) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name + "_AUTHORIZATION";
}

bool clean(std::string_view text) {
  for (char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return false;
  return true;
}

/// The headers of a sink in the environment and in the file with credentials.
Result<HttpPoster::Headers> credentialsOf(const std::string& sink, const std::string& file) {
  HttpPoster::Headers headers;
  if (const char* value = std::getenv(variableOf(sink).c_str()); value && *value) {
    if (!clean(value)) return Status::invalid(variableOf(sink) + " is not one line of text");
    headers.emplace_back("Authorization", value);
  }
  if (file.empty()) return headers;
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0) return errnoStatus("read", file);
  if (state.st_mode & 077) return Status::invalid("others can read " + file + ": chmod 600 " + file);
  std::ifstream in(file);
  if (!in) return Status::io("cannot read " + file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const size_t blank = line.find(' '), colon = line.find(':', blank == std::string::npos ? 0 : blank);
    const std::string of = line.substr(0, blank);
    if (blank == std::string::npos || colon == std::string::npos || !clean(line) ||
        (of != "remote-write" && of != "otlp" && of != "influx" && of != "clickhouse"))
      return Status::invalid(file + ", line " + std::to_string(number) +
                             ": expected `remote-write|otlp|influx|clickhouse Header: value`");
    if (of != sink) continue;
    const size_t value = line.find_first_not_of(' ', colon + 1);
    headers.emplace_back(line.substr(blank + 1, colon - blank - 1),
                         value == std::string::npos ? "" : line.substr(value));
  }
  return headers;
}

/// The answer's first line.
std::string firstLine(const std::string& body) {
  std::string line;
  for (char c : body.substr(0, std::min(body.find('\n'), kMostTold)))
    line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return line;
}

}  // namespace

struct HttpPoster::Connection {
  explicit Connection(const std::string& host) : client(host) {}
  httplib::Client client;
};

HttpPoster::~HttpPoster() = default;

Result<std::unique_ptr<HttpPoster>> HttpPoster::open(const std::string& sink, const std::string& url,
                                                     const std::string& default_path, const Options& options,
                                                     int answer_s) {
  const std::string scheme = url.starts_with("https://") ? "https://" : "http://";
  const Status bad = Status::invalid("--" + sink + ": '" + url.substr(0, 256) +
                                     "' is not an address of the form http://HOST[:PORT][/PATH]");
  if (!url.starts_with(scheme) || !clean(url) || url.find(' ') != std::string::npos) return bad;
  const size_t path = url.find_first_of("/?", scheme.size());
  const std::string host = url.substr(scheme.size(), path == std::string::npos ? path : path - scheme.size());
  if (host.find('@') != std::string::npos || url.find("&p=") != std::string::npos ||
      url.find("?p=") != std::string::npos)
    return Status::invalid("--" + sink +
                           ": no passwords in the address, because everybody on the machine can read it: use " +
                           variableOf(sink) + " or --export-auth");
  if (host.empty() || host.starts_with(':')) return bad;
  std::unique_ptr<HttpPoster> poster(new HttpPoster());
  poster->path_ = path == std::string::npos ? "/" : url.substr(path);
  if (poster->path_ == "/") poster->path_ = default_path;
  poster->address_ = scheme + host + poster->path_.substr(0, poster->path_.find('?'));
  Result<Headers> credentials = credentialsOf(sink, options.auth_file);
  if (!credentials) return credentials.status();
  poster->credentials_ = std::move(*credentials);
  poster->connection_ = std::make_unique<Connection>(scheme + host);
  httplib::Client& client = poster->connection_->client;
  if (!client.is_valid()) return bad;
  client.set_connection_timeout(kConnectS);
  client.set_read_timeout(answer_s);
  client.set_write_timeout(answer_s);
  client.set_keep_alive(true);
  return poster;
}

Delivery HttpPoster::post(const std::string& path, const std::string& type, const Headers& headers,
                          const std::string& body, std::string* answer, bool final_500) {
  httplib::Headers all = {{"User-Agent", std::string("tracesmith/") + TRACESMITH_VERSION}};
  for (const auto& header : headers) all.insert(header);
  for (const auto& header : credentials_) all.insert(header);
  const httplib::Result result = connection_->client.Post(path.c_str(), all, body, type.c_str());
  using Outcome = Delivery::Outcome;
  if (!result) return {Outcome::later, 0, "cannot reach " + address_ + ": " + httplib::to_string(result.error())};
  const int code = result->status;
  if (code >= 200 && code < 300) {
    if (answer) *answer = result->body;
    return {};
  }
  std::string problem = address_ + " answered " + std::to_string(code);
  if (const std::string why = firstLine(result->body); !why.empty()) problem += ": " + why;
  const bool later = code == 401 || code == 403 || code == 404 || code == 408 || code == 429 ||
                     (code >= 500 && !(final_500 && code != 502 && code != 503 && code != 504));
  return {later ? Outcome::later : Outcome::refused, 0, std::move(problem)};
}

void HttpPoster::cancel() { connection_->client.stop(); }

}  // namespace tracesmith::sink
