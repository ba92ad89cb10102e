// Prints the page's TypeScript for what travels: scripts/build-page puts it into web/src/model.ts.
#include <cstdio>
#include <string>

#include "base/text.hpp"
#include "model/json_names.hpp"
#include "tracesmith/model/cause.hpp"

namespace tracesmith::model {
namespace {

template <typename Kind>
const char* typeOf() {
  using namespace kind;
  if (std::is_same_v<Kind, Note> || std::is_same_v<Kind, Moment>) return "string | null";
  if (std::is_same_v<Kind, Index>) return "number | null";
  if (std::is_same_v<Kind, Samples>) return "(number | null)[]";
  if (std::is_same_v<Kind, Values>) return "Record<string, number | null>";
  if (std::is_same_v<Kind, Flag>) return "boolean";
  return std::is_same_v<Kind, Text> || std::is_same_v<Kind, Wide> || std::is_same_v<Kind, Time> ? "string" : "number";
}

void field(std::string_view name, const std::string& type, const char* doc) {
  std::printf("  /** %s */\n  %.*s: %s;\n", doc, static_cast<int>(name.size()), name.data(), type.c_str());
}

void item(const char* name, const char* type, const char* doc) {
  std::printf("  /** %s */\n  %s: %s,\n", doc, name, type);
}

void printTypes() {
#define ENUM(Name, doc) std::printf("/** %s */\nexport type %s =", doc, #Name);
#define VALUE(Name, value) std::printf(" | \"%s\"", #value);
#define END_ENUM(Name) std::printf(";\n\n");
#define STRUCT(Name, Message, doc) std::printf("/** %s */\nexport interface %s {\n", doc, #Name);
#define STRUCT_OF(Name, Message, Base, doc) \
  std::printf("/** %s */\nexport interface %s extends %s {\n", doc, #Name, #Base);
#define FIELD(Struct, Kind, name, doc) field(jsonName<kind::Kind>(#name), typeOf<kind::Kind>(), doc);
#define MAYBE(Struct, Kind, name, doc) \
  field(jsonName<kind::Kind>(#name), std::string(typeOf<kind::Kind>()) + " | null", doc);
#define LIST(Struct, Kind, name, most, doc) field(#name, "(" + std::string(typeOf<kind::Kind>()) + ")[]", doc);
#define CHOICE(Struct, Enum, name, doc) field(#name, #Enum, doc);
#define PART(Struct, Other, name, doc) field(#name, #Other, doc);
#define MAYBE_PART(Struct, Other, name, doc) field(#name, #Other " | null", doc);
#define PARTS(Struct, Other, name, most, doc) field(#name, #Other "[]", doc);
#define END_STRUCT(Name) std::printf("}\n\n");
#define TUPLE(Name, doc) std::printf("/** %s */\nexport type %s = [\n", doc, #Name);
#define ITEM(Tuple, Kind, name, doc) item(#name, typeOf<kind::Kind>(), doc);
#define END_TUPLE(Name) std::printf("];\n\n");
#define WITH_ANSWERS
#include "model/travel.def"
}

/// Of a kind in verdict.def.
const char* typeNamed(std::string_view kind) {
  if (kind == "Text" || kind == "How") return "string";
  if (kind == "Note") return "string | null";
  if (kind == "Notes") return "string[]";
  if (kind == "Flag") return "boolean";
  if (kind == "Id" || kind == "Real" || kind == "MaybeInt") return "number | null";
  if (kind == "ByName") return "Record<string, number>";
  if (kind == "Counts") return "number[][]";
  if (kind == "Reals") return "(number | null)[][]";
  if (kind == "Ids") return "(number | null)[]";
  if (kind == "Why") return "Cause";
  if (kind == "MaybeWhy") return "Cause | null";
  if (kind == "About") return "\"none\" | \"rank\" | \"link\" | \"unknown\"";
  return "number";
}

void printAnalysis() {
#define STRUCT(Name, doc) std::printf("/** %s */\nexport interface %s {\n", doc, #Name);
#define FIELD(Struct, Kind, name, doc) field(#name, typeNamed(#Kind), doc);
#define FIELD_AS(Struct, Kind, name, json, doc) field(json, typeNamed(#Kind), doc);
#define PART(Struct, Other, name, doc) field(#name, #Other, doc);
#define MAYBE_PART(Struct, Other, name, doc) field(#name, #Other " | null", doc);
#define PARTS(Struct, Other, name, doc) field(#name, #Other "[]", doc);
#define PARTS_AS(Struct, Other, name, json, doc) field(json, #Other "[]", doc);
#define GROUP(Struct, name, doc) std::printf("  /** %s */\n  %s: {\n", doc, #name);
#define END_GROUP(Struct) std::printf("  };\n");
#define END_STRUCT(Name) std::printf("}\n\n");
#include "tracesmith/model/verdict.def"
}

void printLists() {
  std::printf("export type AlertKind =");
  for (const AlertInfo& a : alertKinds()) std::printf(" | \"%s\"", a.name);
  std::printf(";\nexport type Severity = \"info\" | \"warning\" | \"critical\";\nexport type Cause =");
  for (const CauseInfo& c : causes()) std::printf(" | \"%s\"", c.name);
  std::printf(";\n\n/** Causes in words. */\nexport const causeTitles: Record<Cause, string> = {\n");
  for (const CauseInfo& c : causes()) std::printf("  %s: \"%s\",\n", c.name, c.title);
  std::printf("};\n\n/** What to do about them. */\nexport const causeAdvice: Record<Cause, string> = {\n");
  for (const CauseInfo& c : causes()) {
    std::string text;
    appendJsonString(text, adviceOf(c.cause, ""));
    std::printf("  %s: %s,\n", c.name, text.c_str());
  }
  std::printf("};\n");
}

}  // namespace
}  // namespace tracesmith::model

int main() {
  std::printf("// Printed by src/model/page_types.cpp from what is declared in src/model.\n\n");
  tracesmith::model::printTypes();
  tracesmith::model::printAnalysis();
  tracesmith::model::printLists();
}
