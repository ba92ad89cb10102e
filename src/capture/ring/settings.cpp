#include "capture/ring/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/text.hpp"

namespace tracesmith::ring {
namespace {

constexpr const char* kModes[] = {"light", "default", "full", "watch"};
constexpr int64_t kMostSteps = 1'000'000;

/// What can be set, apart from a ring.
struct Control {
  bool recording = true;
  uint32_t mode = 1;
  Window window{1, 1};
  uint32_t budget_ppm = 0;
};

std::string percentOf(uint32_t ppm) {
  char text[32];
  std::snprintf(text, sizeof text, "%g%%", ppm / 1e4);
  return text;
}

Status unknownKey(std::string_view key) {
  std::string all;
  for (const SettingInfo& s : settings()) all += (all.empty() ? "" : ", ") + std::string(s.key);
  return Status::invalid("there is no setting \"" + std::string(key) + "\"; settings are " + all);
}

/// A word with a value. One without has an empty value.
Status split(const std::string& word, std::string_view& key, std::string_view& value) {
  const size_t equals = word.find('=');
  key = std::string_view(word).substr(0, equals);
  value = equals == std::string::npos ? std::string_view() : std::string_view(word).substr(equals + 1);
  const auto& all = settings();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SettingInfo& s) { return key == s.key; });
  if (found == all.end()) return unknownKey(key);
  if (equals == std::string::npos) return {};
  if (!*found->values) return Status::invalid(std::string(key) + " can only be read");
  if (value.empty()) return Status::invalid(std::string(key) + " takes " + found->values);
  return {};
}

Status apply(Control& control, const std::string& word) {
  std::string_view key, value;
  TS_TRY(split(word, key, value));
  const auto wrong = [&](const char* takes) {
    return Status::invalid(std::string(key) + " takes " + takes + ", not \"" + std::string(value) + "\"");
  };
  if (value.empty()) return {};
  if (key == "recording") {
    if (value != "on" && value != "off") return wrong("on or off");
    control.recording = value == "on";
  } else if (key == "mode") {
    const auto mode = std::find(std::begin(kModes), std::end(kModes), value);
    if (mode == std::end(kModes)) return wrong("light, default, full or watch");
    control.mode = static_cast<uint32_t>(mode - std::begin(kModes));
  } else if (key == "window") {
    const std::optional<Window> window = windowOf(value);
    if (!window) return wrong("K/N, such as 2/100: K of every N steps");
    control.window = *window;
  } else if (key == "budget") {
    const std::optional<uint32_t> budget = value == "off" ? std::optional<uint32_t>(0) : budgetOf(value);
    if (!budget) return wrong("off, or a percentage of the job's time between 0.001 and 100, such as 1%");
    control.budget_ppm = *budget;
  }
  return {};
}

bool sets(const std::vector<std::string>& words, const std::string& key) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& w) { return w.starts_with(key + "="); });
}

}  // namespace

const std::vector<SettingInfo>& settings() {
  static const std::vector<SettingInfo> all = {
#define SETTING(key, values, meaning) {#key, values, meaning},
#include "capture/ring/settings.def"
  };
  return all;
}

std::optional<Window> windowOf(std::string_view text) {
  const size_t slash = text.find('/');
  int64_t steps = 0, every = 0;
  if (slash == text.npos || !parseInt(text.substr(0, slash), steps) || !parseInt(text.substr(slash + 1), every) ||
      steps <= 0 || steps > every || every > kMostSteps)
    return {};
  return Window{static_cast<uint32_t>(steps), static_cast<uint32_t>(every)};
}

std::optional<uint32_t> budgetOf(std::string_view text) {
  if (text.ends_with('%')) text.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || end != text.data() + text.size() || !(percent >= 0.001 && percent <= 100)) return {};
  return static_cast<uint32_t>(percent * 1e4);
}

bool hasStepsWithout(const Window& window) { return window.every >= window.steps + 3; }

const char* modeName(uint32_t mode) { return mode < std::size(kModes) ? kModes[mode] : "other"; }

std::vector<SettingValue> readSettings(const RingHeader& h, int64_t reader) {
  const uint32_t cost = h.cost_ppm.load(), budget = h.budget_ppm.load(), cuda = h.cuda_state.load();
  const bool watch = h.mode.load() == kWatch;
  const auto value = [&](std::string_view key) -> std::string {
    if (key == "recording") return h.recording.load() ? "on" : "off";
    if (key == "mode") return modeName(h.mode.load());
    if (key == "window" && h.window_every.load() == 0) return "-";
    if (key == "window") return std::to_string(h.window_steps.load()) + "/" + std::to_string(h.window_every.load());
    if (key == "budget") return budget == 0 ? "off" : percentOf(budget);
    if (key == "cost") return !watch || cuda != 1 || cost == kNoCost ? "-" : percentOf(cost);
    if (key == "gpu") return cuda == 0 ? "no CUDA" : cuda != 1 ? "no CUPTI" : h.gpu_off_ns.load() ? "off" : "on";
    return reader == 0 ? "-" : std::to_string(reader);
  };
  std::vector<SettingValue> all;
  for (const SettingInfo& s : settings()) all.push_back({s.key, value(s.key)});
  return all;
}

Status checkSettings(const std::vector<std::string>& words) {
  Control any;
  for (const std::string& word : words) TS_TRY(apply(any, word));
  return {};
}

Status writeSettings(RingHeader& h, const std::vector<std::string>& words) {
  const Window before{h.window_steps.load(), h.window_every.load()};
  Control control{h.recording.load() != 0, h.mode.load(), before, h.budget_ppm.load()};
  for (const std::string& word : words) TS_TRY(apply(control, word));
  if (control.budget_ppm != 0 && (sets(words, "budget") || sets(words, "window")) && !hasStepsWithout(control.window))
    return Status::invalid(
        "a budget compares steps with and without records: set a window K/N with N of at least K + 3, or budget=off");
  if (sets(words, "window")) {
    h.window_steps = control.window.steps;
    h.window_every = control.window.every;
    h.window_asked = control.window.every;
    h.cost_ppm = kNoCost;
  }
  if (sets(words, "budget")) h.budget_ppm = control.budget_ppm;
  if (sets(words, "mode")) h.mode = control.mode;
  if (sets(words, "recording")) h.recording = control.recording;
  return {};
}

}  // namespace tracesmith::ring
