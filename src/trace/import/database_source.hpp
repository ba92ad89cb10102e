// Databases of other profilers, as the JSON that Kineto would have written: ChromeImport makes rows of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trace/import/database.hpp"
#include "trace/import/input.hpp"
#include "trace/import/losses.hpp"

namespace tracesmith::trace {

/// A part of the database: a statement, and what writes an event for each of its rows. False: the row cannot be one.
struct DatabasePart {
  std::string what;  ///< the table, for people
  std::string sql;
  std::function<bool(const Rows& row, JsonWriter& json)> write;
};

struct DatabaseTrace {
  /// Members of the outermost object beside traceEvents.
  std::function<void(JsonWriter& json)> header;
  std::vector<DatabasePart> parts;
};

/// What should have become rows and did not, and what people should know.
struct DatabaseNotes {
  Losses losses;
  std::vector<std::string> warnings;
};

/// What `nsys export --type sqlite` wrote.
DatabaseTrace nsysTrace(const Database& database, DatabaseNotes& notes);
/// What rocprofv3 wrote (rocpd).
DatabaseTrace rocpdTrace(const Database& database, DatabaseNotes& notes);

/// Of a database of either; `notes` grow up to its end. Both must outlive the source.
Result<std::unique_ptr<ByteSource>> databaseSource(const Database& database, uint64_t file_bytes, DatabaseNotes& notes);

// ---- for both

/// Members `ts` and `dur`, in µs as Kineto has them. False: it ends before it begins, or the time is none.
bool writeTimes(JsonWriter& json, int64_t start_ns, int64_t end_ns);
/// Says that the rows of a table are left out, if it has any.
void leaveOut(const Database& database, const std::string& table, DatabaseNotes& notes);
/// "Memcpy HtoD" of 'H', 'D' and so on.
std::string copyName(std::string_view from, std::string_view to);

}  // namespace tracesmith::trace
