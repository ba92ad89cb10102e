// What travels, as the text files that agents and masters keep.
//
//   key value            a field under its name; of a list one line for each item, under its name without the last "s"
//   key name=value …     a part; blanks and % in a value are %20 and %25
//
// Older versions wrote the values of a part without their names, in the order of travel.def: the first is one word, and
// a text after it is the rest of the line. That is read too, so new fields of a part are added at its end. Keys that
// are not known are left out.
#pragma once

#include <string>
#include <string_view>

#include "model/travel.hpp"

namespace tracesmith::model {

/// toLines: all fields. fromLines: those that are in the text; the others stay as they are. toLine and fromLine: the
/// fields in one line, as a part has them. takeField: one field, from the front of `value`; false: there is none.
#define STRUCT(Name, Message, doc)                    \
  std::string toLines(const Name& value);             \
  void fromLines(std::string_view text, Name& value); \
  std::string toLine(const Name& value);              \
  void fromLine(std::string_view line, Name& value);  \
  bool takeField(std::string_view key, std::string_view& value, Name& out);
#define STRUCT_OF(Name, Message, Base, doc) STRUCT(Name, Message, doc)
#include "model/travel.def"

}  // namespace tracesmith::model
