// Reads what Python's pickle has written, as far as it is plain data: numbers, texts, lists, dictionaries. Nothing is
// executed: a file that asks for it is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

struct PickleValue {
  enum class Kind { none, flag, integer, real, text, list, dictionary, function };
  Kind kind = Kind::none;
  int64_t integer = 0;  ///< also of a flag
  double real = 0;
  std::string_view text;            ///< of a function: its name
  std::vector<PickleValue*> items;  ///< of a list or tuple; of a dictionary keys and values in turn

  /// Of a dictionary; null: it has no such key, or is none.
  const PickleValue* get(std::string_view key) const;
  bool isText() const { return kind == Kind::text; }
  bool isInteger() const { return kind == Kind::integer; }
  bool isList() const { return kind == Kind::list; }
};

class Pickle {
 public:
  Pickle() = default;
  Pickle(Pickle&&) = default;  // what is in it stays where it is
  Pickle& operator=(Pickle&&) = default;
  /// `bytes` must outlive it: texts are parts of them.
  static Result<Pickle> parse(std::string_view bytes);
  /// A list that holds itself is possible: go down by keys, not through everything.
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleParser;
  std::deque<PickleValue> values_;  // all of them; they refer to each other
  const PickleValue* root_ = nullptr;
};

}  // namespace tracesmith::trace
