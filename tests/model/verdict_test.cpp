// The manual has every key of what `analyze` and `diff` report.
#include <gtest/gtest.h>

#include "model/manual_table.hpp"
#include "tracesmith/analysis/results.hpp"

namespace tracesmith::analysis {
namespace {

void row(std::string& table, const std::string& key, const std::string& doc) {
  table += "| `" + key + "` | " + doc + " |\n";
}

bool isList(std::string_view kind) { return kind == "Notes" || kind == "Ids" || kind == "Counts" || kind == "Reals"; }

/// Appends the rows of a struct, and of those inside it, with this before each key.
template <typename T>
void rows(std::string& table, std::string before);

#define STRUCT(Name, doc) \
  template <>             \
  [[maybe_unused]] void rows<Name>(std::string & table, [[maybe_unused]] std::string before) {
#define END_STRUCT(Name) }
#define FIELD(Struct, Kind, name, doc) FIELD_AS(Struct, Kind, name, #name, doc)
#define FIELD_AS(Struct, Kind, name, json, doc) row(table, before + json + (isList(#Kind) ? "[]" : ""), doc);
#define PART(Struct, Other, name, doc) \
  row(table, before + #name, doc);     \
  rows<Other>(table, before + #name + ".");
#define MAYBE_PART(Struct, Other, name, doc) PART(Struct, Other, name, doc)
#define PARTS(Struct, Other, name, doc) PARTS_AS(Struct, Other, name, #name, doc)
#define PARTS_AS(Struct, Other, name, json, doc) \
  row(table, before + json + "[]", doc);         \
  rows<Other>(table, before + json + "[].");
#define GROUP(Struct, name, doc)   \
  row(table, before + #name, doc); \
  before += #name ".";
#define END_GROUP(Struct) before.erase(before.rfind('.', before.size() - 2) + 1);
#include "tracesmith/model/verdict.def"

template <typename T>
std::string table() {
  std::string out;
  rows<T>(out, "");
  return out;
}

TEST(Verdict, TheManualHasTheTableOfThem) {
  test::expectTable("| key | meaning |", table<AnalysisResult>(), "## JSON of `analyze`");
  test::expectTable("| key | meaning |", table<Diff>(), "## JSON of `diff`");
}

}  // namespace
}  // namespace tracesmith::analysis
