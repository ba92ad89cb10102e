#include "hardware/capability.hpp"

#include <simdjson.h>

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

void applyDeclared(const std::vector<DeclaredNode>& nodes, Capability& capability) {
  for (const DeclaredNode& node : nodes) {
    if (node.name != capability.node && node.name != "*") continue;
    for (Figure figure : node.figures) {
      if (const Figure* known = capability.find(figure.name, figure.part)) figure.unit = known->unit;
      capability.set(std::move(figure));
    }
  }
}

Status applyNodesYaml(const std::string& path, Capability& capability) {
  const Result<std::vector<DeclaredNode>> nodes = loadNodesYaml(path);
  if (nodes) applyDeclared(*nodes, capability);
  return nodes.status();
}

}  // namespace tracesmith::hardware
