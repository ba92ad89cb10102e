// What two traces were recorded on: GPUs and software.
#include <map>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/diff_setting.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// The text behind "key": in a JSON object, also one inside it; empty: not there, or not a text.
std::string textOf(std::string_view json, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\"";
  size_t at = json.find(quoted);
  if (at == json.npos) return {};
  at = json.find_first_not_of(" :", at + quoted.size());
  if (at == json.npos || json[at] != '"') return {};
  const size_t end = json.find('"', at + 1);
  return end == json.npos ? std::string() : std::string(json.substr(at + 1, end - at - 1));
}

using Facts = std::map<std::string, std::set<std::string>>;  // values by what they are of

Result<Facts> factsOf(const Reader& reader) {
  Result<trace::NameNumbers> names = trace::NameNumbers::load(reader);
  if (!names) return names.status();
  Facts out;
  auto add = [&](const std::string& what, std::string value) {
    if (!value.empty()) out[what].insert(std::move(value));
  };
  auto name = [&](int64_t slot) {
    return slot == kNull ? std::string() : std::string(names->text(static_cast<uint32_t>(slot)));
  };
  std::map<std::string, uint64_t> gpus;
  TS_TRY(eachRow<DeviceRow>(reader, *names, {devices::name}, [&](const DeviceRow& row, auto&&) {
    if (row.name != kNull) ++gpus[name(row.name)];
  }));
  for (const auto& [model, count] : gpus) add("GPUs", std::to_string(count) + " × " + model);
  TS_TRY(eachRow<NodeRow>(reader, *names, {nodes::os, nodes::args}, [&](const NodeRow& row, auto&& text) {
    add("operating system", name(row.os));
    add("GPU driver", textOf(text(nodes::args), "nvidia_driver"));
    add("CUDA", textOf(text(nodes::args), "cuda"));
  }));
  TS_TRY(
      eachRow<MetadataRow>(reader, *names, {metadata::key, metadata::value}, [&](const MetadataRow& row, auto&& text) {
        const std::string key = name(row.key);
        const std::string value(text(metadata::value));
        if (key.ends_with("_version")) add(key, value);
        if (key == "distributedInfo") add("NCCL", textOf(value, "nccl_version"));
      }));
  return out;
}

}  // namespace

Result<std::vector<std::string>> differingSettings(const Reader& a, const Reader& b) {
  Result<Facts> before = factsOf(a), after = factsOf(b);
  if (!before) return before.status();
  if (!after) return after.status();
  std::vector<std::string> out;
  for (const auto& [what, values] : *before) {
    auto now = after->find(what);
    if (now == after->end() || now->second == values) continue;  // what one trace does not say cannot be compared
    auto list = [](const std::set<std::string>& all) {
      std::string text;
      for (const std::string& v : all) text += (text.empty() ? "" : ", ") + v;
      return text;
    };
    out.push_back(what + ": " + list(values) + " before, " + list(now->second) + " after");
  }
  return out;
}

}  // namespace tracesmith::analysis
