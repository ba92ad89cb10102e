// StatsD over UDP, with tags as Datadog writes them. Values have no time, so nothing is sent later; a counter is sent
// as its growth since the last time.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>

#include "base/text.hpp"
#include "sink/sink.hpp"

namespace tracesmith::sink {
namespace {

constexpr size_t kMostBytes = 1432;  // of a datagram: what fits into an Ethernet frame

void appendWord(std::string& out, std::string_view text) {
  for (char c : text) out += static_cast<unsigned char>(c) <= ' ' || std::strchr(":|@,#", c) ? '_' : c;
}

class Statsd final : public Sink {
 public:
  Statsd(std::string host, std::string port, std::string instance)
      : host_(std::move(host)), port_(std::move(port)), instance_(std::move(instance)) {}
  ~Statsd() override {
    if (fd_ >= 0) ::close(fd_);
  }
  const char* name() const override { return "statsd"; }
  std::string address() const override { return "udp://" + host_ + ":" + port_; }
  bool lasting() const override { return false; }

  Delivery send(const Message& m) override {
    using Outcome = Delivery::Outcome;
    if (fd_ < 0 && !dial()) return {Outcome::refused, 0, "cannot find " + address()};
    if (::send(fd_, m.body.data(), m.body.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
    const int error = errno;
    if (error != EAGAIN) ::close(std::exchange(fd_, -1));  // the next one looks the name up again
    return {Outcome::refused, 0, "cannot send to " + address() + ": " + std::strerror(error)};
  }

  std::vector<Message> metrics(const MetricSet& metrics, int64_t) override {
    std::vector<Message> messages;
    std::map<std::string, double> counters;
    for (const MetricFamily& family : metrics.families())
      for (const MetricSample& sample : family.samples) {
        if (!std::isfinite(sample.value)) continue;
        std::string tags = "|#";
        appendTag(tags, "instance", instance_);
        for (const auto& [label, value] : sample.labels)
          if (!value.empty()) appendTag(tags += ',', label, value);
        std::string lines;
        if (family.type == MetricType::counter) {
          const auto before = counters_.find(family.name + tags);
          counters[family.name + tags] = sample.value;
          if (before == counters_.end()) continue;  // its growth is not known yet
          // What has become smaller was counted from 0 again.
          appendLine(lines, family.name, sample.value - (sample.value < before->second ? 0 : before->second), "|c",
                     tags);
        } else {
          if (sample.value < 0) appendLine(lines, family.name, 0, "|g", tags);  // a sign means a change
          appendLine(lines, family.name, sample.value, "|g", tags);
        }
        if (messages.empty() || messages.back().body.size() + lines.size() > kMostBytes)
          messages.push_back({"metrics", 0, {}});
        messages.back().body += lines;
        ++messages.back().items;
      }
    counters_ = std::move(counters);
    return messages;
  }

 private:
  bool dial() {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_DGRAM;
    if (::getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found) != 0) return false;
    for (addrinfo* a = found; a && fd_ < 0; a = a->ai_next) {
      fd_ = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
      if (fd_ >= 0 && ::connect(fd_, a->ai_addr, a->ai_addrlen) != 0) ::close(std::exchange(fd_, -1));
    }
    ::freeaddrinfo(found);
    return fd_ >= 0;
  }
  static void appendTag(std::string& out, const std::string& label, const std::string& value) {
    appendWord(out, label);
    out += ':';
    appendWord(out, value);
  }
  static void appendLine(std::string& out, const std::string& name, double value, const char* type,
                         const std::string& tags) {
    out += name + ":";
    appendJsonNumber(out, value);
    out += type + tags + "\n";
  }

  const std::string host_, port_, instance_;
  int fd_ = -1;
  std::map<std::string, double> counters_;  // by name and tags, as they were the last time
};

}  // namespace

Result<std::unique_ptr<Sink>> makeStatsd(const Options& options) {
  const std::string& address = options.statsd;
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int64_t port = 0;
  if (colon == std::string::npos || host.empty() || !parseInt(address.substr(colon + 1), port) || port < 1 ||
      port > 65535)
    return Status::invalid("--statsd: '" + address.substr(0, 256) + "' is not HOST:PORT");
  return std::unique_ptr<Sink>(std::make_unique<Statsd>(host, std::to_string(port), options.instance));
}

}  // namespace tracesmith::sink
