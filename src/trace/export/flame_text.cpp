// Collapsed stacks, which most tools for flame graphs read, and speedscope's JSON.
#include "base/text.hpp"
#include "trace/export/flame.hpp"

namespace tracesmith::trace {
namespace {

/// Node numbers from below the root to this one.
std::vector<uint32_t> pathTo(const FlameTree& tree, uint32_t node) {
  std::vector<uint32_t> path;
  for (; node != 0; node = tree.nodes[node].parent) path.push_back(node);
  return {path.rbegin(), path.rend()};
}

std::string oneLine(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return text;
}

void profile(JsonWriter& w, const FlameTree& tree, const std::string& name, const std::vector<size_t>& which) {
  const auto weight = [&](const FlameNode& n) {
    uint64_t sum = 0;
    for (const size_t k : which) sum += n.self[k];
    return sum;
  };
  std::vector<uint32_t> found;
  uint64_t all = 0;
  for (uint32_t i = 1; i < tree.nodes.size(); ++i)
    if (const uint64_t samples = weight(tree.nodes[i]); samples > 0) {
      found.push_back(i);
      all += samples;
    }
  w.beginObject().field("type", "sampled").field("name", name).field("unit", "none");
  w.field("startValue", 0).field("endValue", all).key("samples").beginArray();
  for (const uint32_t i : found) {
    w.beginArray();
    for (const uint32_t n : pathTo(tree, i)) w.value(static_cast<uint64_t>(tree.nodes[n].name) - 1);
    w.endArray();
  }
  w.endArray().key("weights").beginArray();
  for (const uint32_t i : found) w.value(weight(tree.nodes[i]));
  w.endArray().endObject();
}

/// "step (train.py:12)" in its parts; what has none is only a name.
void frame(JsonWriter& w, const std::string& name) {
  const bool native = isNativeFrame(name);
  const size_t open = name.rfind(native ? " [" : " (");
  w.beginObject().field("name", name);
  if (open != std::string::npos) w.field("file", name.substr(open + 2, name.size() - open - 3));
  w.endObject();
}

}  // namespace

std::string collapsedStacks(const FlameTree& tree) {
  std::string out;
  for (uint32_t i = 1; i < tree.nodes.size(); ++i) {
    const FlameNode& n = tree.nodes[i];
    if (n.self[0] + n.self[1] == 0) continue;
    std::string line;
    for (const uint32_t p : pathTo(tree, i))
      line += (line.empty() ? "" : ";") + oneLine(tree.names[tree.nodes[p].name]);
    if (tree.compared)
      out += line + " " + std::to_string(n.self[0]) + " " + std::to_string(n.self[1]) + "\n";
    else
      out += line + " " + std::to_string(n.self[0] + n.self[1]) + "\n";
  }
  return out;
}

std::string speedscope(const FlameTree& tree, const FlameCaption& caption) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("$schema", "https://www.speedscope.app/file-format-schema.json");
  w.field("name", caption.title).field("exporter", "tracesmith").field("activeProfileIndex", 0);
  w.key("shared").beginObject().key("frames").beginArray();
  for (size_t i = 1; i < tree.names.size(); ++i) frame(w, tree.names[i]);
  w.endArray().endObject().key("profiles").beginArray();
  if (tree.compared) {
    profile(w, tree, "rank " + std::to_string(tree.compared->first), {0});
    profile(w, tree, "rank " + std::to_string(tree.compared->second), {1});
  } else {
    profile(w, tree, "all", {0, 1});
    if (tree.root().total[0] > 0) profile(w, tree, "on CPU", {0});
    if (tree.root().total[1] > 0) profile(w, tree, "waiting", {1});
  }
  w.endArray().endObject();
  return out + "\n";
}

}  // namespace tracesmith::trace
