// What a store has no more: segments that retention removed, and what was lost with a backup.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "cluster/master/store_parts.hpp"
#include "model/travel_lines.hpp"

namespace tracesmith::cluster {
namespace {

constexpr const char *kRemovedFile = "/removed", *kLossesFile = "/losses";

}  // namespace

std::string text(const std::string& node, const model::NodeLoss& loss) {
  std::string what = "data of node " + node + " that this master had acknowledged is gone";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f s of ", static_cast<double>(loss.covered_ns - loss.from_ns) / 1e9);
  if (loss.from_ns != 0 && loss.covered_ns > loss.from_ns) what = seconds + what;
  return what + ": the master was restored from an older state, and the node has removed its copy";
}

void Store::readLists(Node& node) {
  std::ifstream removed(node.folder + kRemovedFile), losses(node.folder + kLossesFile);
  Key key;
  for (std::string line; std::getline(removed, line);)
    if (parseSegmentFile(line, key.first, key.second)) node.removed.insert(key);
  for (std::string line; std::getline(losses, line);)
    if (!line.empty()) model::fromLine(line, node.losses.emplace_back());
}

Status Store::writeList(const std::string& path, const std::string& text) {
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(out->write(text));
  return out->commitDurably();
}

Status Store::remove(const SegmentInfo& segment) {
  Node* node = find(segment.node);
  if (!node) return {};
  std::lock_guard lock(node->mutex);
  const Key key(segment.epoch, segment.number);
  node->removed.insert(key);
  if (Status s = writeRemoved(*node); !s) {
    node->removed.erase(key);
    return s;
  }
  node->segments.erase(key);
  ::unlink((segment.path + kDamagedEnding).c_str());
  if (::unlink(segment.path.c_str()) != 0 && errno != ENOENT) return errnoStatus("remove", segment.path);
  return {};
}

Status Store::writeRemoved(const Node& node) {
  std::string text;
  for (const auto& [epoch, number] : node.removed) text += segmentFile(epoch, number) + "\n";
  return writeList(node.folder + kRemovedFile, text);
}

std::optional<model::NodeLoss> Store::agentRemoved(const std::string& name, const model::SpoolMark& mark) {
  Result<Node*> found = findOrMake(name);
  if (!found) return {};
  Node& node = **found;
  std::lock_guard lock(node.mutex);
  const Key key(mark.epoch, mark.segment);
  bool behind;
  if (auto it = node.segments.find(key); it != node.segments.end())
    behind = it->second.info.size < mark.size;
  else
    behind = !node.removed.contains(key) && (node.segments.empty() || node.segments.rbegin()->first < key);
  for (auto& [k, segment] : node.segments)
    if (k <= key) segment.info.closed = true;  // no more of it will come
  for (const model::NodeLoss& known : node.losses) behind &= Key(known.epoch, known.segment) < key;
  // The agent asks no more for what it has removed.
  if (std::erase_if(node.removed, [&](const Key& k) { return k <= key; }) > 0) (void)writeRemoved(node);
  if (!behind) return {};
  model::NodeLoss loss;
  static_cast<model::SpoolMark&>(loss) = mark;
  loss.from_ns = node.covered_ns;
  node.losses.push_back(loss);
  std::string text;
  for (const model::NodeLoss& l : node.losses) text += model::toLine(l) + "\n";
  (void)writeList(node.folder + kLossesFile, text);  // a full disk: it is found again after a restart
  return loss;
}

std::vector<model::NodeLoss> Store::losses(const std::string& name) const {
  Node* node = find(name);
  if (!node) return {};
  std::lock_guard lock(node->mutex);
  return node->losses;
}

}  // namespace tracesmith::cluster
