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

constexpr std::string_view kHost = "host:", kCategory = "category:";

/// The words of a line; nothing: there are more than three.
std::optional<std::vector<std::string>> wordsOf(std::string_view line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == line.npos) break;
    if (words.size() == 3) return {};
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

const CommRule* matchIn(const std::vector<CommRule>& rules, std::string_view name) {
  for (const CommRule& rule : rules)
    if (globMatch(rule.pattern, name)) return rule.library == "none" ? nullptr : &rule;
  return nullptr;
}

}  // namespace

bool globMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, mark = 0;
  // What follows a star can only match where the text has its letters.
  auto next = [&](size_t from) {
    const size_t end = pattern.find_first_of("*?", star + 1);
    return text.find(pattern.substr(star + 1, end == pattern.npos ? end : end - star - 1), from);
  };
  while (t < text.size()) {  // npos: nowhere
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == text[t]))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      t = mark = next(t);
    } else if (star != pattern.npos) {
      p = star + 1;
      t = mark = next(mark + 1);
    } else {
      return false;
    }
  }
  if (t == text.npos) return false;
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string CommRules::builtIn() {
  std::string out =
      "# Kernels that are communication: PATTERN LIBRARY [OPERATION]. The first line that matches counts.\n"
      "# '*' stands for any text. Library \"none\": not communication.\n"
      "# host:PATTERN LIBRARY [OPERATION] is about host ranges. category:PATTERN TYPE says what the events of a\n"
      "# category are when a trace is imported: kernel, memcpy, memset, runtime, driver, sync, cpu_op, ...\n";
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
  for (const auto& [pattern, library, op] : kBuiltIn) {
    const std::string_view p = pattern;
    const bool host = p.starts_with(kHost);
    (host ? rules_.hosts : rules_.kernels).push_back({std::string(p.substr(host ? kHost.size() : 0)), library, op});
  }
}

Status CommRules::parse(std::string_view text, const std::string& path, Lists& out) {
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    const auto words = wordsOf(line);
    const std::string where = path + " line " + std::to_string(number);
    if (!words || words->size() < 2)
      return Status::invalid(
          where + " is not a rule: write PATTERN LIBRARY [OPERATION], as in \"*my_reduce* mine all_reduce\"");
    const std::string& pattern = words->front();
    if (pattern.starts_with(kCategory)) {
      CategoryRule rule{pattern.substr(kCategory.size()), trace::EventType::other};
      if (words->size() != 2 || !trace::parseEventType((*words)[1], rule.type))
        return Status::invalid(where + " is not a rule: write category:PATTERN TYPE, as in \"category:npu_op kernel\"");
      out.categories.push_back(std::move(rule));
      continue;
    }
    const bool host = pattern.starts_with(kHost);
    (host ? out.hosts : out.kernels)
        .push_back({pattern.substr(host ? kHost.size() : 0), (*words)[1], words->size() > 2 ? (*words)[2] : ""});
  }
  return {};
}

Status CommRules::addFile(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  std::string text(1 << 20, '\0');
  size_t got = 0;
  TS_TRY(file->readAt(0, text.data(), text.size(), got));
  if (got == text.size()) return Status::invalid(path + " is larger than 1 MB: it cannot be a file of rules");
  Lists added;
  TS_TRY(parse(std::string_view(text).substr(0, got), path, added));
  auto before = [](auto& rules, auto& more) { rules.insert(rules.begin(), more.begin(), more.end()); };
  before(rules_.kernels, added.kernels);
  before(rules_.hosts, added.hosts);
  before(rules_.categories, added.categories);
  return {};
}

bool CommRules::excludes(std::string_view kernel) const {
  auto it = std::find_if(rules_.kernels.begin(), rules_.kernels.end(),
                         [&](const CommRule& rule) { return globMatch(rule.pattern, kernel); });
  return it != rules_.kernels.end() && it->library == "none";
}
const CommRule* CommRules::match(std::string_view kernel) const { return matchIn(rules_.kernels, kernel); }
const CommRule* CommRules::matchHost(std::string_view range) const { return matchIn(rules_.hosts, range); }

std::optional<trace::EventType> CommRules::typeOf(std::string_view category) const {
  for (const CategoryRule& rule : rules_.categories)
    if (globMatch(rule.pattern, category)) return rule.type;
  return {};
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
    if (!std::string_view(pattern).starts_with(kHost))
      out += std::string(out.empty() ? "" : " OR ") + "kernel GLOB '" + pattern + "'";
  return "CREATE MACRO is_communication(kernel) AS coalesce(" + out + ", false)";
}

bool isNcclKernel(std::string_view kernel) {
  const CommRule* rule = communicationOf(kernel);
  return rule && rule->library == "nccl";
}

}  // namespace tracesmith::model
