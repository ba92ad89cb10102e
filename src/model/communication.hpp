// Which kernels and host ranges are communication, and what the categories of a profiler mean: rules over their names,
// from communication.def and from a file of the user's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::model {

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
  /// A rule says that this kernel is not communication.
  bool excludes(std::string_view kernel) const;
  /// The same of a host range: "gloo:all_reduce".
  const CommRule* matchHost(std::string_view range) const;
  /// What a file says about events of this category; nothing: no rule is about it.
  std::optional<trace::EventType> typeOf(std::string_view category) const;
  /// The built-in rules as a file.
  static std::string builtIn();

 private:
  struct CategoryRule {
    std::string pattern;
    trace::EventType type;
  };
  struct Lists {
    std::vector<CommRule> kernels, hosts;
    std::vector<CategoryRule> categories;
  };
  static Status parse(std::string_view text, const std::string& path, Lists& out);

  Lists rules_;
};

/// What the built-in rules say about a kernel; nullptr: it is not communication. Each thread looks a name up once.
const CommRule* communicationOf(std::string_view kernel);
inline bool isCommunication(std::string_view kernel) { return communicationOf(kernel) != nullptr; }
/// A kernel that NCCL launched: "ncclDevKernel_…", also as the linker spells it, "_Z39ncclDevKernel_…".
bool isNcclKernel(std::string_view kernel);
/// The built-in rules as SQL: CREATE MACRO is_communication(kernel).
std::string communicationMacro();

/// '*' and '?' as in file names; case counts.
bool globMatch(std::string_view pattern, std::string_view text);

}  // namespace tracesmith::model
