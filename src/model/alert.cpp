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

AlertKind alertKindNamed(std::string_view name) {
  for (const AlertInfo& a : kAlerts)
    if (name == a.name) return a.kind;
  return AlertKind::hang;
}

}  // namespace tracesmith
