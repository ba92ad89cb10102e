#include "analysis/verdict/module_names.hpp"

#include <algorithm>

#include "model/hook_names.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

/// "blocks.*.attn" of "blocks.7.attn".
std::string patternOf(std::string_view name) {
  std::string pattern;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    pattern += digits ? "*" : std::string(part);
    if (end < name.size()) pattern += '.';
    at = end + 1;
  }
  return pattern;
}

}  // namespace

ModuleNames::ModuleNames(const trace::NameNumbers& names) {
  for (uint32_t n = 0; n < names.size(); ++n) {
    std::string_view text = names.text(n);
    const bool backward = text.starts_with(model::kModuleBackward);
    if (!backward && !text.starts_with(model::kModule)) continue;
    text.remove_prefix(backward ? model::kModuleBackward.size() : model::kModule.size());
    if (by_name_.empty()) by_name_.resize(names.size());
    by_name_[n] = {add(text), backward};
  }
}

uint32_t ModuleNames::add(std::string_view title) {
  auto [it, fresh] = known_.try_emplace(title, static_cast<uint32_t>(modules_.size()));
  if (!fresh) return it->second;
  const size_t bracket = title.ends_with(')') ? title.rfind(" (") : title.npos;
  ModuleResult m;
  m.name = title.substr(0, bracket);
  if (bracket != title.npos) m.kind = title.substr(bracket + 2, title.size() - bracket - 3);
  m.pattern = patternOf(m.name);
  modules_.push_back(std::move(m));
  return it->second;
}

ModuleResult* ModuleNames::titled(std::string_view title) {
  auto it = known_.find(title);
  return it == known_.end() ? nullptr : &modules_[it->second];
}

ModuleInPass ModuleNames::of(int64_t name) const {
  return name == kNull || by_name_.empty() ? ModuleInPass() : by_name_[static_cast<uint32_t>(name)];
}

}  // namespace tracesmith::analysis
