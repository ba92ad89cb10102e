#include "analysis/live/report.hpp"

#include <cstdio>

#include "analysis/live/verdict.hpp"

namespace tracesmith::analysis::live {

const char* stateName(ProcessState state) {
  switch (state) {
    case ProcessState::running:
      return "running";
    case ProcessState::stopped:
      return "stopped";
    case ProcessState::dead:
      return "dead";
    case ProcessState::ended:
      return "ended";
  }
  return "";
}

const char* stateName(HangState state) {
  switch (state) {
    case HangState::unknown:
      return "unknown";
    case HangState::ok:
      return "ok";
    case HangState::slow:
      return "slow";
    case HangState::hang:
      return "hang";
  }
  return "";
}

std::string commName(uint64_t comm) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(comm));
  return text;
}

}  // namespace tracesmith::analysis::live
