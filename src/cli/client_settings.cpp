#include "cli/client_settings.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "access/guard.hpp"
#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string defaultFile() {
  std::string folder = environment("XDG_CONFIG_HOME");
  if (folder.empty() && !environment("HOME").empty()) folder = environment("HOME") + "/.config";
  return folder.empty() ? "" : folder + "/tracesmith/client.conf";
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

/// "name = value" lines; # begins a comment line.
Status readFile(const std::string& path, std::map<std::string, std::string>& values) {
  std::ifstream in(path);
  if (!in) return Status::io("cannot read " + path);
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line[0] == '#') continue;
    const std::string where = path + " line " + std::to_string(number) + ": ";
    const size_t equals = line.find('=');
    if (equals == std::string::npos) return Status::invalid(where + "expected NAME = VALUE");
    const std::string name = trimmed(line.substr(0, equals));
    const auto known = values.find(name);
    if (known == values.end())
      return Status::invalid(where + "unknown name \"" + name +
                             "\"; known are master, token, token-file, tls-ca, tls-cert and tls-key");
    known->second = trimmed(line.substr(equals + 1));
  }
  return values["token"].empty() ? Status() : access::checkPrivate(path);
}

}  // namespace

Status addSettings(bool master_given, cluster::ClientOptions& options) {
  std::map<std::string, std::string> file = {{"master", ""}, {"token", ""},    {"token-file", ""},
                                             {"tls-ca", ""}, {"tls-cert", ""}, {"tls-key", ""}};
  const std::string named = environment("TRACESMITH_CONFIG"), path = named.empty() ? defaultFile() : named;
  if (!named.empty() || (!path.empty() && ::access(path.c_str(), F_OK) == 0)) TS_TRY(readFile(path, file));
  access::SecurityOptions& s = options.security;
  if (!master_given) {
    const std::string master = environment("TRACESMITH_MASTER");
    if (!master.empty() || !file["master"].empty()) options.master = master.empty() ? file["master"] : master;
  }
  if (s.token.empty() && s.token_file.empty()) s.token = environment("TRACESMITH_TOKEN");
  if (s.token.empty() && s.token_file.empty()) {
    s.token = file["token"];
    if (s.token.empty()) s.token_file = file["token-file"];
  }
  for (auto [value, name] : {std::pair{&s.tls_ca, "tls-ca"}, {&s.tls_cert, "tls-cert"}, {&s.tls_key, "tls-key"}})
    if (value->empty()) *value = file[name];
  return {};
}

}  // namespace tracesmith::cli
