#include "process/environment.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "base/file.hpp"

namespace tracesmith::process {
namespace {

constexpr size_t kMostBytes = 4u << 20;  // more than the kernel lets a program be started with

// A word of a name that ends like this.
constexpr std::array kEndings = {"KEY",       "KEYS",   "TOKEN",      "TOKENS", "SECRET",     "SECRETS",     "PASSWORD",
                                 "PASSWORDS", "PASSWD", "PASSPHRASE", "PWD",    "CREDENTIAL", "CREDENTIALS", "COOKIE",
                                 "COOKIES",   "AUTH",   "DSN",        "JWT",    "SIGNATURE"};
// A value that begins like this: tokens of well-known services.
constexpr std::array kBeginnings = {"hf_",    "sk-",    "ghp_",    "gho_",   "ghs_",      "github_pat_",
                                    "glpat-", "xoxb-",  "xoxp-",   "AKIA",   "ASIA",      "eyJ",
                                    "ya29.",  "nvapi-", "Bearer ", "Basic ", "-----BEGIN"};

bool secretWord(std::string_view word) {
  if (word == "PASS") return true;
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view e) { return word.ends_with(e); });
}

/// scheme://user:password@host
bool hasPassword(std::string_view value) {
  for (size_t at = value.find("://"); at != std::string_view::npos; at = value.find("://", at + 1)) {
    const std::string_view authority = value.substr(at + 3, value.find_first_of("/?# ", at + 3) - at - 3);
    const size_t end = authority.rfind('@');
    if (end != std::string_view::npos && authority.substr(0, end).find(':') != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

bool mayBeSecret(std::string_view name, std::string_view value) {
  if (name == "PWD" || name == "OLDPWD") return false;
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (size_t from = 0; from <= upper.size();) {
    const size_t end = std::min(upper.find_first_of("_-.", from), upper.size());
    if (secretWord(std::string_view(upper).substr(from, end - from))) return true;
    from = end + 1;
  }
  return hasPassword(value) ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view b) { return value.starts_with(b); });
}

Result<std::vector<Variable>> environmentOf(const std::string& root, int64_t pid) {
  Result<File> file = File::openRead(root + "/proc/" + std::to_string(pid) + "/environ");
  if (!file) return file.status();
  std::string text(kMostBytes, '\0');
  size_t size = 0;
  for (size_t got = 1; got > 0 && size < text.size(); size += got)
    TS_TRY(file->readNext(text.data() + size, text.size() - size, got));
  text.resize(size);
  std::vector<Variable> all;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\0', from), text.size());
    const std::string_view one = std::string_view(text).substr(from, end - from);
    from = end + 1;
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    Variable& v = all.emplace_back();
    v.name = one.substr(0, equals);
    v.value = one.substr(equals + 1);
    v.masked = mayBeSecret(v.name, v.value);
    if (v.masked) v.value = "***";
  }
  return all;
}

}  // namespace tracesmith::process
