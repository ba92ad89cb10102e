#include "model/communication.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <unordered_map>

#include "base/file.hpp"

namespace tracesmith::model {
namespace {

constexpr const char* kBuiltIn[][3] = {
#define COMMUNICATION(pattern, library, operation) {pattern, library, operation},
#include "model/communication.def"
};

const CommRules& builtInRules() {
  static const CommRules rules;
  return rules;
}

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};

/// False: the line is not a rule.
bool parseRule(std::string_view line, CommRule& rule) {
  std::string* fields[] = {&rule.pattern, &rule.library, &rule.op};
  size_t field = 0;
  for (size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == line.npos) break;
    if (field == 3) return false;
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    *fields[field++] = line.substr(at, end - at);
    at = end;
  }
  return field >= 2;
}

Status parse(std::string_view text, const std::string& path, std::vector<CommRule>& out) {
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    CommRule rule;
    if (!parseRule(line, rule))
      return Status::invalid(
          path + " line " + std::to_string(number) +
          " is not a rule: write PATTERN LIBRARY [OPERATION], as in \"*my_reduce* mine all_reduce\"");
    out.push_back(std::move(rule));
  }
  return {};
}

}  // namespace

bool globMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == text[t]))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string CommRules::builtIn() {
  std::string out =
      "# Kernels that are communication: PATTERN LIBRARY [OPERATION]. The first line that matches counts.\n"
      "# '*' stands for any text. Library \"none\": not communication.\n";
  for (const auto& [pattern, library, op] : kBuiltIn) {
    char line[128];
    const int length = std::snprintf(line, sizeof line, "%-30s %-9s %s", pattern, library, op);
    out += std::string_view(line, static_cast<size_t>(length));
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

CommRules::CommRules() {
  for (const auto& [pattern, library, op] : kBuiltIn) rules_.push_back({pattern, library, op});
}

Status CommRules::addFile(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  std::string text(1 << 20, '\0');
  size_t got = 0;
  TS_TRY(file->readAt(0, text.data(), text.size(), got));
  if (got == text.size()) return Status::invalid(path + " is larger than 1 MB: it cannot be a file of rules");
  std::vector<CommRule> added;
  TS_TRY(parse(std::string_view(text).substr(0, got), path, added));
  rules_.insert(rules_.begin(), added.begin(), added.end());
  return {};
}

const CommRule* CommRules::match(std::string_view kernel) const {
  for (const CommRule& rule : rules_)
    if (globMatch(rule.pattern, kernel)) return rule.library == "none" ? nullptr : &rule;
  return nullptr;
}

const CommRule* communicationOf(std::string_view kernel) {
  constexpr size_t kMost = 1 << 16;
  thread_local std::unordered_map<std::string, const CommRule*, Hash, std::equal_to<>> known;
  if (auto it = known.find(kernel); it != known.end()) return it->second;
  if (known.size() >= kMost) known.clear();
  return known[std::string(kernel)] = builtInRules().match(kernel);
}

std::string communicationMacro() {
  std::string out;
  for (const auto& [pattern, library, op] : kBuiltIn)
    out += std::string(out.empty() ? "" : " OR ") + "kernel GLOB '" + pattern + "'";
  return "CREATE MACRO is_communication(kernel) AS coalesce(" + out + ", false)";
}

bool isNcclKernel(std::string_view kernel) {
  const CommRule* rule = communicationOf(kernel);
  return rule && rule->library == "nccl";
}

}  // namespace tracesmith::model
