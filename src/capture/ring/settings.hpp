// The control words of a ring by name: what people read and change of the probe in a running process. The probe looks
// at them all the time, so a change takes effect within a tenth of a second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/ring/layout.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::ring {

/// One that there is; all are declared in settings.def.
struct SettingInfo {
  const char* key;
  const char* values;  ///< what it takes; empty: it can only be read
  const char* meaning;
};
const std::vector<SettingInfo>& settings();

/// "2/100": so many steps of every so many.
struct Window {
  uint32_t steps = 0, every = 0;
};
std::optional<Window> windowOf(std::string_view text);
/// "1%" or "0.5": percent of the job's time, in millionths.
std::optional<uint32_t> budgetOf(std::string_view text);
/// Between two windows: a window opens during the step before it, and closes during the one after. A budget compares
/// with such steps.
bool hasStepsWithout(const Window& window);
/// "light", "default", …; "other" for what this version does not know.
const char* modeName(uint32_t mode);

struct SettingValue {
  std::string key, value;
  bool operator==(const SettingValue&) const = default;
};
/// All of them, in their order.
std::vector<SettingValue> readSettings(const RingHeader& header, int64_t reader);
/// Whether words like "mode=watch" or "mode" can be understood: what is wrong with the first that cannot.
Status checkSettings(const std::vector<std::string>& words);
/// Sets those that have a value: all, or none if they do not fit together.
Status writeSettings(RingHeader& header, const std::vector<std::string>& words);

}  // namespace tracesmith::ring
