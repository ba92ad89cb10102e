// The modules of a trace: by the names of ranges, and by their titles ("blocks.7.attn (Attention)").
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trace/name_numbers.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {

/// A module in its forward or its backward pass.
struct ModuleInPass {
  uint32_t module = trace::kNoName;  // in ModuleNames::modules(); kNoName: none
  bool backward = false;
  friend auto operator<=>(const ModuleInPass&, const ModuleInPass&) = default;
};

class ModuleNames {
 public:
  /// Those that have ranges. `names` must live as long.
  explicit ModuleNames(const trace::NameNumbers& names);
  bool empty() const { return modules_.empty(); }
  /// The module with this title, new or known. The text must live as long as the names.
  uint32_t add(std::string_view title);
  /// nullptr: none has this title.
  ModuleResult* titled(std::string_view title);
  /// Of the name of a range.
  ModuleInPass of(int64_t name) const;
  std::vector<ModuleResult>& modules() { return modules_; }

 private:
  std::map<std::string_view, uint32_t> known_;  // by title
  std::vector<ModuleInPass> by_name_;           // empty: no range is a module
  std::vector<ModuleResult> modules_;
};

}  // namespace tracesmith::analysis
