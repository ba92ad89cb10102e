// Who may do what: tokens with roles, failures that slow the guesser down, and a log of what was done.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::access {

/// How a server or client proves who it is, and with whom it speaks.
struct SecurityOptions {
  std::string token_file;                 ///< server: lines "ROLE TOKEN" (or one token: admin); client: its token
  std::string tls_cert, tls_key, tls_ca;  ///< PEM files; a server with a CA asks clients for certificates
};

enum class Role { kNone, kViewer, kOperator, kAdmin };
const char* roleName(Role role);

/// A server may leave loopback only with a token file or a certificate authority for its clients.
Status checkListen(const std::string& host, const SecurityOptions& security);
/// A file with a secret in it must be its owner's alone.
Status checkPrivate(const std::string& file);
/// A line of a token file: "ROLE TOKEN", or "TOKEN" for admin; # begins a comment.
struct TokenEntry {
  Role role;
  std::string token;
};
Result<std::vector<TokenEntry>> readTokens(const std::string& file);
/// The token to present: the one of the file that may do most. Empty without a file.
Result<std::string> readToken(const std::string& file);

/// Thread safe.
class Guard {
 public:
  /// Without a token file everybody who can connect is admin.
  Status open(const SecurityOptions& security, const std::string& audit_file);

  /// Whether the token's role suffices, and which it is. kUnauthenticated: the token is wrong or missing; kBusy: `peer`
  /// guessed too often; kForbidden: the role is less than `needed`.
  Status admit(const std::string& peer, const std::string& token, Role needed, Role& role);
  /// Whether a peer guessed too often.
  bool shutOut(const std::string& peer);
  void audit(const std::string& peer, Role role, const std::string& action, const std::string& what,
             const Status& outcome);

 private:
  struct Failures {
    int count = 0;
    std::chrono::steady_clock::time_point since{};
  };
  bool shutOutLocked(const std::string& peer);
  bool open_ = false;  // no tokens asked for
  std::vector<TokenEntry> entries_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Failures> failures_;
  File audit_;
};

}  // namespace tracesmith::access
