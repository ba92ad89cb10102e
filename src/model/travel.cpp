#include "model/travel.hpp"

namespace tracesmith::model {

namespace {

/// The place of a name in a list that an empty one ends; -1: it is not there.
int placeOf(std::string_view name, const char* const* names) {
  for (int i = 0; names[i]; ++i)
    if (name == names[i]) return i;
  return -1;
}

#define ENUM(Name, doc) constexpr const char* k##Name[] = {
#define VALUE(Name, value) #value,
#define END_ENUM(Name) \
  nullptr              \
  }                    \
  ;
#define WITH_ANSWERS
#include "model/travel.def"

}  // namespace

#define END_ENUM(Name)                                                              \
  const char* nameOf(Name value) { return k##Name[static_cast<size_t>(value)]; }    \
  void fromName(std::string_view name, Name& value) {                               \
    if (const int i = placeOf(name, k##Name); i >= 0) value = static_cast<Name>(i); \
  }
#define WITH_ANSWERS
#include "model/travel.def"

}  // namespace tracesmith::model
