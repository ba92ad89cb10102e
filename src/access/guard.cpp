#include "access/guard.hpp"

#include <sys/stat.h>

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

Status Guard::open(const SecurityOptions& security, const std::string& audit_file) {
  Result<File> audit = File::openAppend(audit_file);
  if (!audit) return audit.status();
  audit_ = std::move(*audit);
  open_ = security.token_file.empty();
  if (open_) return {};
  Result<std::vector<TokenEntry>> entries = readTokens(security.token_file);
  if (!entries) return entries.status();
  entries_ = std::move(*entries);
  return {};
}

Status Guard::admit(const std::string& peer, const std::string& token, Role needed, Role& role) {
  role = Role::kAdmin;
  if (open_) return {};
  role = Role::kNone;
  std::lock_guard lock(mutex_);
  if (shutOutLocked(peer)) return Status::busy("too many wrong tokens from your address: try again in half a minute");
  for (const TokenEntry& e : entries_)
    if (same(e.token, token)) role = std::max(role, e.role);
  if (role >= needed && role != Role::kNone) return {};
  if (role != Role::kNone)
    return Status::forbidden(std::string("your token has the role ") + roleName(role) + "; this needs " +
                             roleName(needed));
  if (failures_.size() >= kMostPeers) failures_.clear();
  Failures& f = failures_[peer];
  if (f.count++ == 0) f.since = std::chrono::steady_clock::now();
  return Status::unauthenticated(token.empty() ? "a token is required: give --token-file" : "unknown token");
}

bool Guard::shutOutLocked(const std::string& peer) {
  auto it = failures_.find(peer);
  if (it == failures_.end()) return false;
  if (std::chrono::steady_clock::now() - it->second.since <= kFailureWindow) return it->second.count >= kMostFailures;
  failures_.erase(it);
  return false;
}

bool Guard::shutOut(const std::string& peer) {
  std::lock_guard lock(mutex_);
  return shutOutLocked(peer);
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
