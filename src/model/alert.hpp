// Alerts of the watcher of a cluster, declared in alert.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tracesmith {

enum class AlertKind : uint8_t {
#define ALERT(name, severity, doc) name,
#include "model/alert.def"
#undef ALERT
};

enum class Severity : uint8_t { info, warning, critical };

struct AlertInfo {
  AlertKind kind;
  const char* name;  ///< in JSON
  Severity severity;
  const char* doc;
};

/// All of them, in the order of the enum.
std::span<const AlertInfo> alertKinds();
const AlertInfo& info(AlertKind kind);
inline const char* nameOf(AlertKind kind) { return info(kind).name; }
const char* nameOf(Severity severity);
/// Leaves the value as it is if there is none of that name.
void fromName(std::string_view name, AlertKind& kind);
void fromName(std::string_view name, Severity& severity);

}  // namespace tracesmith
