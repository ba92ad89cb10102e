// Which kernels are communication: rules of names, from the built-in list and from a file of the user's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::analysis {

struct CommRule {
  std::string pattern;  ///< '*' stands for any text, '?' for one character
  std::string library;  ///< nccl, rccl, deepep, nvshmem, …; "none": not communication after all
  std::string op;       ///< all_reduce, …; empty: not said
};

class CommRules {
 public:
  /// The built-in rules.
  CommRules();
  /// Rules of a file go before those that are there: the first that matches counts. Nothing changes if one is bad.
  Status addFile(const std::string& path);
  /// nullptr: not communication.
  const CommRule* match(std::string_view kernel) const;
  /// The built-in rules as a file.
  static std::string_view builtIn();

 private:
  std::vector<CommRule> rules_;
};

/// '*' and '?' as in file names; case counts.
bool globMatch(std::string_view pattern, std::string_view text);

}  // namespace tracesmith::analysis
