#include "analysis/live/report.hpp"

#include <cstdio>

namespace tracesmith::analysis::live {

std::string commName(uint64_t comm) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(comm));
  return text;
}

}  // namespace tracesmith::analysis::live
