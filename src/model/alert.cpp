#include "model/alert.hpp"

namespace tracesmith {
namespace {

constexpr AlertInfo kAlerts[] = {
#define ALERT(name, severity, doc) {AlertKind::name, #name, Severity::severity, doc},
#include "model/alert.def"
#undef ALERT
};

}  // namespace

std::span<const AlertInfo> alertKinds() { return kAlerts; }

const AlertInfo& info(AlertKind kind) { return kAlerts[static_cast<size_t>(kind)]; }

const char* nameOf(Severity severity) {
  constexpr const char* kNames[] = {"info", "warning", "critical"};
  return kNames[static_cast<size_t>(severity)];
}

void fromName(std::string_view name, AlertKind& kind) {
  for (const AlertInfo& a : kAlerts)
    if (name == a.name) kind = a.kind;
}

void fromName(std::string_view name, Severity& severity) {
  for (Severity s : {Severity::info, Severity::warning, Severity::critical})
    if (name == nameOf(s)) severity = s;
}

}  // namespace tracesmith
