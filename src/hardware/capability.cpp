#include "hardware/capability.hpp"

#include <simdjson.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.hpp"
#include "base/text.hpp"

namespace tracesmith::hardware {

const Figure* Capability::find(const std::string& name, const std::string& part) const {
  for (const Figure& f : figures)
    if (f.name == name && f.part == part) return &f;
  return nullptr;
}

void Capability::set(Figure figure) {
  for (Figure& f : figures)
    if (f.name == figure.name && f.part == figure.part) {
      f = std::move(figure);
      return;
    }
  figures.push_back(std::move(figure));
}

std::map<std::pair<uint32_t, uint32_t>, double> Capability::links() const {
  std::map<std::pair<uint32_t, uint32_t>, double> out;
  for (const Figure& f : figures) {
    const size_t arrow = f.part.find('-');
    int64_t a = 0, b = 0;
    if (f.name == "link_gbps" && arrow != std::string::npos && parseInt(f.part.substr(0, arrow), a) &&
        parseInt(f.part.substr(arrow + 1), b))
      out[{static_cast<uint32_t>(a), static_cast<uint32_t>(b)}] = f.median;
  }
  return out;
}

std::string capabilityPath(const std::string& node) {
  const char* data = std::getenv("TRACESMITH_DATA");
  std::string name;
  for (char c : node) {  // a node's name never leads anywhere else
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain || (c == '.' && !name.empty()) ? c : '_';
  }
  return std::string(data ? data : "tracesmith-data") + "/nodes/" + (name.empty() ? "node" : name) + ".json";
}

std::string capabilityJson(const Capability& c) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("node", c.node).field("measured_at", c.measured_at).key("figures").beginArray();
  for (const Figure& f : c.figures) {
    w.beginObject().field("name", f.name).field("unit", f.unit);
    if (!f.part.empty()) w.field("part", f.part);
    w.field("median", f.median).field("low", f.low).field("high", f.high);
    w.field("repetitions", f.repetitions).field("how", f.how).endObject();
  }
  w.endArray().key("notes").beginArray();
  for (const std::string& n : c.notes) w.value(n);
  w.endArray().endObject();
  return out;
}

Status saveCapability(const std::string& path, const Capability& capability) {
  std::error_code failed;
  if (std::filesystem::path folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, failed);
  if (failed) return Status::io("cannot create the folder of " + path + ": " + failed.message());
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.status();
  TS_TRY(file->write(capabilityJson(capability) + "\n"));
  return file->commit();
}

Result<Capability> loadCapability(const std::string& path) {
  simdjson::padded_string text;
  if (simdjson::padded_string::load(path).get(text)) return Status::notFound("cannot read " + path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array figures;
  if (parser.parse(text).get(root) || root["figures"].get(figures))
    return Status::corrupt(path + " is not a capability record: run tracesmith bench hardware");
  Capability c;
  auto string = [](simdjson::dom::element e, const char* key) {
    std::string_view v;
    return e[key].get(v) ? std::string() : std::string(v);
  };
  c.node = string(root, "node");
  c.measured_at = string(root, "measured_at");
  for (simdjson::dom::element e : figures) {
    Figure f;
    f.name = string(e, "name");
    f.unit = string(e, "unit");
    f.part = string(e, "part");
    f.how = string(e, "how");
    int64_t repetitions = 0;
    if (e["median"].get(f.median) || e["low"].get(f.low) || e["high"].get(f.high) || e["repetitions"].get(repetitions))
      return Status::corrupt(path + ": the figure " + f.name + " has no number");
    f.repetitions = static_cast<int>(repetitions);
    c.figures.push_back(std::move(f));
  }
  return c;
}

Status applyNodesYaml(const std::string& path, Capability& capability) {
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (!root["nodes"] || !root["nodes"].IsSequence()) return Status::invalid(path + " has no list `nodes`");
    for (const YAML::Node& node : root["nodes"]) {
      const std::string name = node["name"] ? node["name"].as<std::string>() : "";
      if (name != capability.node && name != "*") continue;
      for (const auto& entry : node["capabilities"]) {
        const std::string metric = entry.first.as<std::string>();
        auto declare = [&](const std::string& part, const YAML::Node& value) {
          const double v = value.as<double>();
          const Figure* known = capability.find(metric, part);
          capability.set({metric, known ? known->unit : "", part, v, v, v, 0, "declared in " + path});
        };
        if (entry.second.IsMap())
          for (const auto& part : entry.second) declare(part.first.as<std::string>(), part.second);
        else
          declare("", entry.second);
      }
    }
  } catch (const YAML::BadFile&) {
    return Status::notFound("cannot read " + path);
  } catch (const YAML::Exception& e) {
    return Status::invalid(path + ", line " + std::to_string(e.mark.line + 1) + ": " + e.msg);
  }
  return {};
}

}  // namespace tracesmith::hardware
