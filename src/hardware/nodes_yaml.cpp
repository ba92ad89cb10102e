// nodes.yaml: what users declare of their nodes.
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>

#include "hardware/capability.hpp"

namespace tracesmith::hardware {
namespace {

/// What is wrong, and where.
struct Wrong {
  YAML::Mark mark;
  std::string what;
};

std::string textOf(const YAML::Node& value, const char* what) {
  if (!value.IsScalar() || value.Scalar().empty()) throw Wrong{value.Mark(), std::string(what) + " must be a text"};
  return value.Scalar();
}

double numberOf(const YAML::Node& value, const std::string& what) {
  double v = 0;
  if (!value.IsScalar() || !YAML::convert<double>::decode(value, v) || !std::isfinite(v) || v < 0)
    throw Wrong{value.Mark(), what + " must be a number of at least 0"};
  return v;
}

void addFigures(const std::string& path, const YAML::Node& capabilities, DeclaredNode& node) {
  if (!capabilities.IsMap()) throw Wrong{capabilities.Mark(), "`capabilities` must be a map: cpu_gflops: 900"};
  for (const auto& entry : capabilities) {
    const std::string name = textOf(entry.first, "the name of a figure");
    auto declare = [&](const std::string& part, const YAML::Node& value) {
      const double v = numberOf(value, name);
      node.figures.push_back({name, "", part, v, v, v, 0, "declared in " + path});
    };
    if (!entry.second.IsMap()) {
      declare("", entry.second);
      continue;
    }
    for (const auto& part : entry.second) declare(textOf(part.first, "the part of a figure"), part.second);
  }
}

DeclaredNode nodeOf(const std::string& path, const YAML::Node& entry) {
  if (!entry.IsMap()) throw Wrong{entry.Mark(), "a node must be a map with a `name`"};
  DeclaredNode node;
  for (const auto& field : entry) {
    const std::string name = textOf(field.first, "the name of a field");
    if (name == "name")
      node.name = textOf(field.second, "`name`");
    else if (name == "address")
      node.address = textOf(field.second, "`address`");
    else if (name == "price_per_hour")
      node.price_per_hour = numberOf(field.second, "`price_per_hour`");
    else if (name == "capabilities")
      addFigures(path, field.second, node);
    else
      throw Wrong{field.first.Mark(),
                  "there is no field `" + name + "`: use name, address, price_per_hour and capabilities"};
  }
  if (node.name.empty()) throw Wrong{entry.Mark(), "a node has no `name`"};
  if (node.name == "*" && !node.address.empty())
    throw Wrong{entry.Mark(), "\"*\" stands for every node and has no `address`"};
  return node;
}

}  // namespace

Result<std::vector<DeclaredNode>> loadNodesYaml(const std::string& path) {
  auto wrong = [&](const YAML::Mark& mark, const std::string& what) {
    return Status::invalid(path + ", line " + std::to_string(mark.line + 1) + ": " + what);
  };
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (!root.IsMap() || !root["nodes"] || !root["nodes"].IsSequence())
      return Status::invalid(path + " has no list `nodes`");
    std::vector<DeclaredNode> nodes;
    std::set<std::string> names;
    for (const YAML::Node& entry : root["nodes"]) {
      nodes.push_back(nodeOf(path, entry));
      if (!names.insert(nodes.back().name).second)
        return wrong(entry.Mark(), "node " + nodes.back().name + " is declared twice");
    }
    return nodes;
  } catch (const Wrong& w) {
    return wrong(w.mark, w.what);
  } catch (const YAML::BadFile&) {
    return Status::notFound("cannot read " + path);
  } catch (const YAML::Exception& e) {
    return wrong(e.mark, e.msg);
  }
}

}  // namespace tracesmith::hardware
