// Who may do what: tokens with roles, failures that slow the guesser down, and a log of what was done.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "access/owner.hpp"
#include "base/file.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::access {

/// How a server or client proves who it is, and with whom it speaks.
struct SecurityOptions {
  std::string token_file;                 ///< server: lines "ROLE TOKEN" (or one token: admin); client: its token
  std::string token;                      ///< client: the token itself, instead of a file
  std::string tls_cert, tls_key, tls_ca;  ///< PEM files; a server with a CA asks clients for certificates
};

enum class Role { kNone, kViewer, kOperator, kAdmin };
const char* roleName(Role role);

/// A server may leave loopback only with a token file or a certificate authority for its clients.
Status checkListen(const std::string& host, const SecurityOptions& security);
/// What to warn of where a token would travel to or from `host` unencrypted; empty: nothing.
std::string clearTokenWarning(const std::string& host, const SecurityOptions& security);
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

/// What a client presents.
Result<std::string> clientToken(const SecurityOptions& security);

/// Thread safe.
class Guard {
 public:
  /// Without a token file, who shows a certificate is admin. Where none is asked for, only the user who runs this
  /// process (and root) is, over connections from this machine: the kernel knows who opened them.
  Status open(const SecurityOptions& security, const std::string& audit_file);
  /// The port this server got.
  void setPort(uint16_t port) { port_ = port; }

  /// Whether the token's role suffices for `call`, and which it is. kUnauthenticated: the token is wrong or missing;
  /// kBusy: the same, and it came too often from this address; kForbidden: the role is less than `needed`. A token that
  /// is right is never refused for what others at its address did. Refusals go into the audit log.
  Status admit(const Peer& peer, const std::string& token, Role needed, Role& role, const std::string& call);
  /// Writes a refusal into the audit log, unless this address has had many lately.
  void refused(const Peer& peer, Role role, const std::string& call, const Status& why);
  void audit(const std::string& peer, Role role, const std::string& action, const std::string& what,
             const Status& outcome);

 private:
  /// Of an address, within half a minute.
  struct Failures {
    int guesses = 0;   // wrong tokens
    int refusals = 0;  // of all kinds
    std::chrono::steady_clock::time_point since{};
  };
  Failures& failuresLocked(const std::string& host);
  Status identify(const Peer& peer, const std::string& token, Role needed, Role& role);
  bool open_ = false;          // no tokens asked for
  bool certificates_ = false;  // but certificates
  std::atomic<uint16_t> port_{0};
  std::vector<TokenEntry> entries_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Failures> failures_;
  File audit_;
};

}  // namespace tracesmith::access
