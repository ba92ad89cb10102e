// The args of a row, a JSON object from outside, on their way into another JSON object.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace tracesmith::trace {

class ChromeArgs {
 public:
  ChromeArgs();
  ~ChromeArgs();

  /// Looks at a text; false if it is no JSON object. The text must stay as long as it is used.
  bool parse(std::string_view json);
  /// Whether the object parsed last has this member.
  bool has(std::string_view key) const;
  /// Its members without the braces, for use inside another object; empty if there are none.
  std::string_view members() const { return members_; }
  /// Value of a member that is an integer, or kNull.
  int64_t integer(std::string_view key) const;
  /// Value of a member as JSON; empty if it is missing.
  std::string json(std::string_view key) const;

  /// If the last member is `key` with a string: takes it away from members() and gives its value, with quotes, as
  /// written.
  std::string_view takeLastString(std::string_view key);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string_view members_;
};

}  // namespace tracesmith::trace
