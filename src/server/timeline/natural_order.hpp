// The order of names for people.
#pragma once

#include <string_view>

namespace tracesmith::server {

/// As people count: node2 before node10.
inline int naturalOrder(std::string_view a, std::string_view b) {
  size_t i = 0, k = 0;
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  auto number = [&](std::string_view s, size_t& at) {
    while (at + 1 < s.size() && s[at] == '0' && digit(s[at + 1])) ++at;
    const size_t start = at;
    while (at < s.size() && digit(s[at])) ++at;
    return s.substr(start, at - start);
  };
  while (i < a.size() && k < b.size()) {
    if (digit(a[i]) && digit(b[k])) {
      const std::string_view x = number(a, i), y = number(b, k);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = x.compare(y); order != 0) return order;
    } else if (a[i] != b[k]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[k]) ? -1 : 1;
    } else {
      ++i;
      ++k;
    }
  }
  return i < a.size() ? 1 : k < b.size() ? -1 : a.compare(b);
}

}  // namespace tracesmith::server
