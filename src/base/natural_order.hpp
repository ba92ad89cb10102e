// The order of names in which numbers count as numbers: node2 before node10.
#pragma once

#include <string_view>

namespace tracesmith {

struct NaturalOrder {
  bool operator()(std::string_view a, std::string_view b) const {
    auto digit = [](char c) { return c >= '0' && c <= '9'; };
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      if (!digit(a[i]) || !digit(b[j])) {
        if (a[i] != b[j]) return a[i] < b[j];
        ++i, ++j;
        continue;
      }
      while (i < a.size() && a[i] == '0') ++i;
      while (j < b.size() && b[j] == '0') ++j;
      const size_t i0 = i, j0 = j;
      while (i < a.size() && digit(a[i])) ++i;
      while (j < b.size() && digit(b[j])) ++j;
      if (i - i0 != j - j0) return i - i0 < j - j0;  // more digits: a larger number
      if (const int order = a.substr(i0, i - i0).compare(b.substr(j0, j - j0)); order != 0) return order < 0;
    }
    if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
    return a < b;  // node01 and node1 are two names
  }
};

/// Less than 0: a is first; 0: they are the same.
inline int naturalOrder(std::string_view a, std::string_view b) {
  return NaturalOrder()(a, b) ? -1 : NaturalOrder()(b, a) ? 1 : 0;
}

}  // namespace tracesmith
