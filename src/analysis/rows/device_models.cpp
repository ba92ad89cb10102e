#include "analysis/rows/device_models.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// The number behind "key": in a JSON object; NaN: it is not there.
double numberOf(std::string_view json, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\":";
  const size_t at = json.find(quoted);
  if (at == json.npos) return std::nan("");
  const std::string text(json.substr(at + quoted.size(), 32));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() || value <= 0 ? std::nan("") : value;
}

}  // namespace

Result<DeviceModels> DeviceModels::load(const Reader& reader, const trace::NameNumbers& names) {
  DeviceModels out;
  namespace d = devices;
  std::set<std::string> models;
  TS_TRY(
      eachRow<DeviceRow>(reader, names, {d::node, d::device, d::name, d::args}, [&](const DeviceRow& row, auto&& said) {
        auto text = [&](int64_t slot) {
          return slot == kNull ? std::string() : std::string(names.text(static_cast<uint32_t>(slot)));
        };
        const std::string model = text(row.name);
        std::string& known = out.devices_[text(row.node)][row.device];
        // Traces of several nodes without names may say two things about one device: then nothing is known.
        known = known.empty() || known == model ? model : "?";
        if (model.empty()) return;
        models.insert(model);
        const std::string_view args = said(d::args);
        out.speeds_[model].push_back({numberOf(args, "measured_tflops"), numberOf(args, "measured_memory_gbps")});
      }));
  out.several_ = models.size() > 1;
  return out;
}

const std::string& DeviceModels::nameOf(const std::string& node, int64_t device) const {
  static const std::string unknown;
  auto all = devices_.find(node);
  if (all == devices_.end() || all->second.empty()) return unknown;
  auto it = all->second.find(device);
  const std::string& first = all->second.begin()->second;
  const bool same =
      std::all_of(all->second.begin(), all->second.end(), [&](const auto& d) { return d.second == first; });
  const std::string& found = same ? first : it == all->second.end() ? unknown : it->second;
  return found == "?" ? unknown : found;
}

size_t DeviceModels::gpusOf(const std::string& node) const {
  auto it = devices_.find(node);
  return it == devices_.end() ? 0 : it->second.size();
}

void DeviceModels::place(int64_t process, const std::string& node, int64_t device) {
  if (!several_) return;
  const std::string& model = nameOf(node, device);
  if (model.empty()) return;
  auto it = std::find(names_.begin(), names_.end(), model);
  of_process_[process] = static_cast<uint32_t>(it - names_.begin());
  if (it == names_.end()) names_.push_back(model);
}

bool DeviceModels::mixed() const {
  std::set<uint32_t> seen;
  for (const auto& [process, model] : of_process_) seen.insert(model);
  return seen.size() > 1;
}

double DeviceModels::measuredRatio(uint32_t slow, uint32_t fast) const {
  auto speeds = [&](uint32_t model, double Speed::*what) {
    std::vector<double> values;
    if (auto it = speeds_.find(names_[model]); it != speeds_.end())
      for (const Speed& s : it->second) values.push_back(s.*what);
    return median(std::move(values));
  };
  const double compute = speeds(fast, &Speed::compute) / speeds(slow, &Speed::compute),
               memory = speeds(fast, &Speed::memory) / speeds(slow, &Speed::memory);
  return std::isnan(compute) || std::isnan(memory) ? std::nan("") : std::max(compute, memory);
}

}  // namespace tracesmith::analysis
