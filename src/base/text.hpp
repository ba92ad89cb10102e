// Text for people and machines: sizes, durations, JSON, markup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

std::string humanCount(uint64_t n);      ///< 1234567 → "1,234,567"
std::string humanBytes(uint64_t bytes);  ///< 1536 → "1.5 KB" (powers of 1000)
std::string humanNs(double ns);          ///< 1234567 → "1.235 ms"
/// The same of a time between two clocks that may be `bound` off each other: with no more digits than that allows, and
/// "< 2.000 ms" if it is less. Not a number: nothing is known of the clocks, or there is one.
std::string humanNsWithin(double ns, double bound);

/// "250us", "1.5s", "20ms", "300ns" → ns. False if it is not a duration with a unit.
bool parseDuration(std::string_view s, int64_t& ns);
/// "8GB", "1.5 TB", "512MiB", "4096" → bytes. False if it is not a size.
bool parseBytes(std::string_view s, uint64_t& bytes);
/// A whole decimal integer, nothing else.
bool parseInt(std::string_view s, int64_t& value);

/// Appends s; bytes that are no valid UTF-8 become U+FFFD.
void appendUtf8(std::string& out, std::string_view s);
/// Appends s as a JSON string with its quotes. Bytes that are no valid UTF-8 become U+FFFD, so the result is always
/// valid JSON.
void appendJsonString(std::string& out, std::string_view s);
/// Shortest text that reads back as the same double; null for NaN and infinities.
void appendJsonNumber(std::string& out, double v);

/// s as the text of HTML or SVG, between tags or in quotes: nothing of it is markup. Control characters are left out.
std::string escapedMarkup(std::string_view s);

/// Builds JSON text: keeps track of commas and nesting, nothing else.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter& beginObject() { return open('{'); }
  JsonWriter& endObject() { return close('}'); }
  JsonWriter& beginArray() { return open('['); }
  JsonWriter& endArray() { return close(']'); }
  JsonWriter& key(std::string_view k);
  JsonWriter& value(std::string_view v);
  JsonWriter& value(const char* v) { return value(std::string_view(v)); }
  JsonWriter& value(const std::string& v) { return value(std::string_view(v)); }
  JsonWriter& value(double v);
  JsonWriter& value(int64_t v);
  JsonWriter& value(uint64_t v);
  JsonWriter& value(int v) { return value(static_cast<int64_t>(v)); }
  JsonWriter& value(bool v);
  JsonWriter& null();
  /// Text that is JSON already.
  JsonWriter& raw(std::string_view json);
  template <typename T>
  JsonWriter& field(std::string_view k, const T& v) {
    return key(k).value(v);
  }

 private:
  JsonWriter& open(char c);
  JsonWriter& close(char c);
  void comma();
  std::string& out_;
  bool need_comma_ = false;
};

/// Lines up columns: rows of cells, the first the heading; numbers (cells that start with a digit or '-') to the right.
std::string alignTable(const std::vector<std::vector<std::string>>& rows, std::string_view indent = "");

}  // namespace tracesmith
