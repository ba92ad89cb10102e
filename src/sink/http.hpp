// Posts to a web server over http or https, one connection kept open.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sink/sink.hpp"

namespace tracesmith::sink {

/// One thread posts; cancel() may come from any other.
class HttpPoster {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// `url`: http(s)://HOST[:PORT][/PATH]; without a path `default_path` is taken. `sink`: whose credentials it uses.
  static Result<std::unique_ptr<HttpPoster>> open(const std::string& sink, const std::string& url,
                                                  const std::string& default_path, const Options& options,
                                                  int answer_s = 10);
  ~HttpPoster();

  /// Without what is behind a "?": it may hold a secret.
  const std::string& address() const { return address_; }
  const std::string& path() const { return path_; }
  /// To `path`. `answer`: the body of the answer, if it is wanted. Codes that say "not now" or "not without
  /// credentials" are tried again, and so is 500 unless `final_500`; others are refusals.
  Delivery post(const std::string& path, const std::string& type, const Headers& headers, const std::string& body,
                std::string* answer = nullptr, bool final_500 = false);
  void cancel();

 private:
  struct Connection;
  HttpPoster() = default;
  std::string address_, path_;
  Headers credentials_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace tracesmith::sink
