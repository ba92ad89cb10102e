// Numbers of JSON text, without the rounding a double would bring.
#include <charconv>
#include <cmath>

#include "trace/import/json_cursor.hpp"

namespace tracesmith::trace {
namespace {

std::string_view unquoted(std::string_view s) {
  return s.size() >= 2 && s.front() == '"' && s.back() == '"' ? s.substr(1, s.size() - 2) : s;
}

/// value × scale, rounded.
bool fromDouble(std::string_view s, double scale, int64_t& out) {
  double v;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) return false;
  v *= scale;
  if (!(std::fabs(v) < 9.2e18)) return false;
  out = std::llround(v);
  return true;
}

}  // namespace

bool parseMicros(std::string_view token, int64_t& ns) {
  std::string_view s = unquoted(token);
  const char *p = s.data(), *end = p + s.size();
  bool negative = p < end && *p == '-';
  p += negative;
  uint64_t v = 0;
  const char* digits = p;
  for (; p < end && *p >= '0' && *p <= '9'; ++p) v = v * 10 + static_cast<uint64_t>(*p - '0');
  if (p == digits) return false;
  if (p - digits > 16 || v > 9'200'000'000'000'000) return s.find_first_of("eE") != s.npos && fromDouble(s, 1000, ns);
  uint64_t fraction = 0;
  if (p < end && *p == '.') {
    ++p;
    static constexpr uint64_t kScale[] = {100, 10, 1};
    for (int i = 0; p < end && *p >= '0' && *p <= '9'; ++i, ++p) {
      if (i < 3) fraction += kScale[i] * static_cast<uint64_t>(*p - '0');
      if (i == 3 && *p >= '5') ++fraction;
    }
  }
  if (p != end) return (*p == 'e' || *p == 'E') && fromDouble(s, 1000, ns);
  auto value = static_cast<int64_t>(v * 1000 + fraction);
  ns = negative ? -value : value;
  return true;
}

bool parseToken(std::string_view token, int64_t& value) {
  std::string_view s = unquoted(token);
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error == std::errc() && end == s.data() + s.size()) return value != INT64_MIN;
  if (error != std::errc() || (*end != '.' && *end != 'e' && *end != 'E')) return false;
  double d;
  if (!parseToken(s, d) || !(std::fabs(d) < 9e15) || d != std::floor(d)) return false;
  value = static_cast<int64_t>(d);
  return true;
}

bool parseToken(std::string_view token, double& value) {
  std::string_view s = unquoted(token);
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  return error == std::errc() && end == s.data() + s.size() && std::isfinite(value);
}

}  // namespace tracesmith::trace
