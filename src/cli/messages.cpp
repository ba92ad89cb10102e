#include <cstdio>

#include "cli/commands.hpp"

namespace tracesmith::cli {

int fail(const Status& status) {
  std::fprintf(stderr, "tracesmith: %s\n", status.message().c_str());
  return 1;
}

void warn(const std::string& message) {
  if (!message.empty()) std::fprintf(stderr, "tracesmith: warning: %s\n", message.c_str());
}

}  // namespace tracesmith::cli
