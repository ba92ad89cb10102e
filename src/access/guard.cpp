#include "access/guard.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "access/names.hpp"
#include "base/text.hpp"

namespace tracesmith::access {
namespace {

constexpr int kMostFailures = 10;
constexpr auto kFailureWindow = std::chrono::seconds(30);
constexpr size_t kMostPeers = 4096;  // remembered; an attacker with more addresses starts over
constexpr size_t kLeastToken = 16;

/// Takes as long wherever the difference is.
bool same(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return !b.empty() && difference == 0;
}

std::string timeText() {
  const std::time_t now = std::time(nullptr);
  std::tm tm{};
  ::gmtime_r(&now, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

/// Without tokens: who asks, by what the kernel knows of the connection.
Status checkUser(const Peer& peer, uint16_t port) {
  const std::optional<uid_t> user = ownerOf(peer, port);
  if (!user)
    return Status::unauthenticated(
        "cannot tell which user of this machine asks, and the server has no tokens: start it with --token-file");
  if (*user == 0 || *user == ::geteuid()) return {};
  return Status::unauthenticated("without tokens, only user " + std::to_string(::geteuid()) +
                                 ", who runs this server, may use it (you are user " + std::to_string(*user) +
                                 "): it needs --token-file");
}

}  // namespace

Status checkPrivate(const std::string& file) {
  struct stat st;
  if (::stat(file.c_str(), &st) != 0) return errnoStatus("read", file);
  if (st.st_mode & 077) return Status::invalid(file + " holds secrets: make it readable by you only (chmod 600)");
  return {};
}

const char* roleName(Role role) {
  static constexpr const char* kNames[] = {"none", "viewer", "operator", "admin"};
  return kNames[static_cast<int>(role)];
}

Status checkListen(const std::string& host, const SecurityOptions& security) {
  if (isLoopback(host) || !security.token_file.empty() || !security.tls_ca.empty()) return {};
  return Status::invalid(
      "listening on " + host +
      " is reachable from other machines: give --token-file, or --tls-ca to require client certificates");
}

std::string clearTokenWarning(const std::string& host, const SecurityOptions& s) {
  const bool tls = !s.tls_cert.empty() || !s.tls_ca.empty();
  if ((s.token_file.empty() && s.token.empty()) || tls || isLoopback(host)) return {};
  return "the token and all data travel unencrypted between " + host +
         " and other machines, and whoever listens in can use the token: add TLS (tracesmith cluster certs)";
}

Result<std::vector<TokenEntry>> readTokens(const std::string& file) {
  TS_TRY(checkPrivate(file));
  std::ifstream in(file);
  std::string line;
  std::vector<TokenEntry> entries;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line);
    std::string first, second;
    if (!(words >> first) || first[0] == '#') continue;
    TokenEntry entry{Role::kAdmin, first};
    if (words >> second) {
      entry.token = second;
      if (first == "viewer")
        entry.role = Role::kViewer;
      else if (first == "operator")
        entry.role = Role::kOperator;
      else if (first != "admin")
        return Status::invalid(file + " line " + std::to_string(number) +
                               ": expected ROLE TOKEN, where the role is viewer, operator or admin");
    }
    if (entry.token.size() < kLeastToken)
      return Status::invalid(file + " line " + std::to_string(number) + ": a token needs at least 16 characters");
    entries.push_back(entry);
  }
  if (entries.empty()) return Status::invalid(file + " contains no token");
  return entries;
}

Result<std::string> readToken(const std::string& file) {
  if (file.empty()) return std::string();
  Result<std::vector<TokenEntry>> entries = readTokens(file);
  if (!entries) return entries.status();
  const auto best = std::max_element(entries->begin(), entries->end(),
                                     [](const TokenEntry& a, const TokenEntry& b) { return a.role < b.role; });
  return best->token;
}

Result<std::string> clientToken(const SecurityOptions& security) {
  if (security.token.empty()) return readToken(security.token_file);
  for (const char c : security.token)
    if (c <= ' ' || c > '~') return Status::invalid("a token consists of letters, digits and signs, without blanks");
  return security.token;
}

Status Guard::open(const SecurityOptions& security, const std::string& audit_file) {
  Result<File> audit = File::openAppend(audit_file);
  if (!audit) return audit.status();
  audit_ = std::move(*audit);
  open_ = security.token_file.empty();
  certificates_ = !security.tls_ca.empty();
  if (open_) return {};
  Result<std::vector<TokenEntry>> entries = readTokens(security.token_file);
  if (!entries) return entries.status();
  entries_ = std::move(*entries);
  return {};
}

Status Guard::identify(const Peer& peer, const std::string& token, Role needed, Role& role) {
  role = Role::kNone;
  if (open_) {
    if (!certificates_) TS_TRY(checkUser(peer, port_));
    role = Role::kAdmin;
    return {};
  }
  for (const TokenEntry& e : entries_)
    if (same(e.token, token)) role = std::max(role, e.role);
  if (role >= needed && role != Role::kNone) return {};
  if (role != Role::kNone)
    return Status::forbidden(std::string("your token has the role ") + roleName(role) + "; this needs " +
                             roleName(needed));
  if (token.empty()) return Status::unauthenticated("a token is required: give --token-file or set TRACESMITH_TOKEN");
  std::lock_guard lock(mutex_);
  if (++failuresLocked(peer.host).guesses > kMostFailures)
    return Status::busy("too many wrong tokens from your address: try again in half a minute");
  return Status::unauthenticated("unknown token");
}

Status Guard::admit(const Peer& peer, const std::string& token, Role needed, Role& role, const std::string& call) {
  const Status status = identify(peer, token, needed, role);
  if (!status) refused(peer, role, call, status);
  return status;
}

Guard::Failures& Guard::failuresLocked(const std::string& host) {
  const auto now = std::chrono::steady_clock::now();
  if (failures_.size() >= kMostPeers && !failures_.contains(host)) failures_.clear();
  Failures& f = failures_[host];
  if (now - f.since > kFailureWindow) f = {0, 0, now};
  return f;
}

void Guard::refused(const Peer& peer, Role role, const std::string& call, const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (++failuresLocked(peer.host).refusals > kMostFailures) return;
  }
  audit(peer.name, role, "refused", call.substr(0, 256), why);
}

void Guard::audit(const std::string& peer, Role role, const std::string& action, const std::string& what,
                  const Status& outcome) {
  std::string line;
  JsonWriter w(line);
  w.beginObject().field("time", timeText()).field("peer", peer).field("role", roleName(role));
  w.field("action", action).field("what", what).field("ok", outcome.ok());
  if (!outcome) w.field("why", outcome.message());
  w.endObject();
  line += '\n';
  std::lock_guard lock(mutex_);
  (void)audit_.write(line);
}

}  // namespace tracesmith::access
