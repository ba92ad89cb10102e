// The verdict as JSON: what the command, the HTTP API and webhooks give.
#pragma once

#include <string>
#include <vector>

#include "analysis/live/verdict.hpp"

namespace tracesmith::analysis::live {

/// {state, since, verdict, confidence, communicators[], culprits[], alerts[]}. Times are texts of digits: they do not
/// fit a double.
std::string hangJson(const HangVerdict& verdict, const std::vector<Alert>& alerts);
/// {t, kind, severity, text}
std::string alertJson(const Alert& alert);

}  // namespace tracesmith::analysis::live
