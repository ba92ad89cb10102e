// One event of Chrome's trace format, as slices of its text.
#pragma once

#include <string_view>
#include <vector>

#include "trace/import/json_cursor.hpp"

namespace tracesmith::trace {

/// A member of an object: `"key": value`.
struct JsonMember {
  const char* begin;       ///< the key's opening quote
  std::string_view key;    ///< as written, without quotes
  std::string_view value;  ///< as written
  const char* end() const { return value.data() + value.size(); }
};

struct ChromeEvent {
  std::string_view ph, name, cat;          ///< contents of the strings, as written; a number as its text
  bool name_escaped = false;               ///< name holds escapes
  std::string_view ts, dur, pid, tid, id;  ///< values as written; empty: not there
  std::string_view args;                   ///< the value, as written
  std::vector<JsonMember> arg_members;     ///< of args, if it is an object
  std::vector<JsonMember> others;          ///< members without a field of their own
  bool not_finite = false;                 ///< holds NaN or Infinity somewhere
  std::string_view text;                   ///< all of it

  void clear();
  const JsonMember* findArg(std::string_view key) const;
  const JsonMember* findOther(std::string_view key) const;
};

/// Reads the object that begins at the cursor. False as JsonCursor has it.
bool readEvent(JsonCursor& cursor, ChromeEvent& event);
/// Reads the members of the object that begins at the cursor.
bool readMembers(JsonCursor& cursor, std::vector<JsonMember>& members);

}  // namespace tracesmith::trace
