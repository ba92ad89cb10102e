#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "access/names.hpp"
#include "cluster/master/store_parts.hpp"
#include "cluster/wire/checkpoint.hpp"
#include "cluster/wire/damage.hpp"

namespace tracesmith::cluster {

namespace {

constexpr size_t kManyFiles = 8;  // from here on one syncfs is cheaper than a sync of each

}  // namespace

Store::~Store() = default;

Store::Node* Store::find(const std::string& node) const {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : it->second.get();
}

Result<Store::Node*> Store::findOrMake(const std::string& name) {
  TS_TRY(access::checkName("node", name));
  std::lock_guard lock(mutex_);
  if (auto it = nodes_.find(name); it != nodes_.end()) return it->second.get();
  auto node = std::make_unique<Node>();
  node->folder = folder_ + "/" + name;
  TS_TRY(makePrivateFolder(node->folder));
  TS_TRY(syncFolder(folder_));
  return nodes_.emplace(name, std::move(node)).first->second.get();
}

Result<Store::Taken> Store::append(const std::string& name, const std::string& epoch, uint32_t number, uint64_t offset,
                                   std::string_view data, int64_t now_ns) {
  std::string parsed_epoch;
  uint32_t parsed;
  const std::string file = segmentFile(epoch, number);
  if (!parseSegmentFile(file, parsed_epoch, parsed)) return Status::invalid("this is not a spool segment");
  Result<Node*> node = findOrMake(name);
  if (!node) return node.status();
  std::lock_guard lock((*node)->mutex);
  if ((*node)->removed.contains({epoch, number})) return Taken{UINT64_MAX, UINT64_MAX, true, 0, {}};
  auto& segments = (*node)->segments;
  if (data.empty() && !segments.contains({epoch, number})) return Taken{0, 0, true, 0, {}};
  Segment& segment = segments[{epoch, number}];
  SegmentInfo& info = segment.info;
  if (info.path.empty()) {
    info.node = name;
    info.epoch = epoch;
    info.number = number;
    info.path = (*node)->folder + "/" + file;
  }
  if (offset != info.intact || data.empty())
    return Taken{info.intact, std::min(info.durable, info.intact), true, 0, info.path};
  if (info.intact < info.size) TS_TRY(setAside(segment));
  SegmentInfo after = info;
  int64_t covered = 0;
  std::string_view blocks = data;
  if (offset == 0) {
    Result<size_t> header = trace::fileHeaderAt(data);
    if (!header) return Status::invalid(header.status().message());
    blocks.remove_prefix(*header);
    after.size = after.intact = *header;
  }
  while (!blocks.empty()) {
    Result<trace::BlockBytes> block = trace::blockAt(blocks, true);
    if (!block) return Status::invalid("node " + name + " sent an incomplete block: " + block.status().message());
    blocks.remove_prefix(block->header.block_size);
    absorb(after, *block);
    if (!isCheckpoint(*block)) continue;
    const int64_t until = checkpointTimes(*block).covered_ns;
    if (until <= now_ns) covered = std::max(covered, until);
  }
  if (!segment.file.isOpen()) {
    Result<File> out = File::openAppend(info.path);
    if (!out) return out.status();
    if (::ftruncate(out->fd(), static_cast<off_t>(info.size)) != 0) return errnoStatus("cut", info.path);  // a torn end
    segment.file = std::move(*out);
    TS_TRY(syncFolder((*node)->folder));
  }
  if (Status s = segment.file.write(data); !s) {
    (void)::ftruncate(segment.file.fd(), static_cast<off_t>(info.size));  // no half block stays
    return s;
  }
  const uint64_t events = after.events - info.events;
  info = after;
  (*node)->covered_ns = std::max((*node)->covered_ns, covered);
  return Taken{info.size, info.durable, false, events, info.path};
}

Status Store::sync(std::vector<Durable>& durable) {
  struct Dirty {
    Node* node;
    Durable what;
    uint64_t size;
    int fd;
    bool failed;
  };
  std::vector<Dirty> dirty;
  std::vector<Node*> all;
  Status status;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, node] : nodes_) all.push_back(node.get());
  }
  for (Node* node : all) {
    std::lock_guard lock(node->mutex);
    for (auto& [key, s] : node->segments) {
      if (s.info.durable == s.info.size || s.info.size == 0) continue;
      if (s.suspect) {
        if (Status written = writeAgain(s); !written) {
          status = written;
          continue;
        }
      }
      const int fd = s.file.isOpen() ? ::dup(s.file.fd()) : ::open(s.info.path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) {
        status = errnoStatus("open", s.info.path);
        continue;
      }
      dirty.push_back({node, {s.info.node, s.info.epoch, s.info.number, s.info.intact}, s.info.size, fd, false});
      if (s.info.closed) s.file = File();  // complete: its descriptor is free for others
    }
  }
  // All at once, then each: only the file's own call says for sure that its bytes are there.
  const bool together = dirty.size() >= kManyFiles && ::syncfs(dirty[0].fd) != 0;
  for (Dirty& d : dirty) {
    d.failed = (sync_file_(d.fd) != 0 && errno != EINVAL) || together;
    if (d.failed) status = errnoStatus("sync", folder_ + "/" + d.what.node);
    ::close(d.fd);
  }
  for (const Dirty& d : dirty) {
    std::lock_guard lock(d.node->mutex);
    auto it = d.node->segments.find({d.what.epoch, d.what.number});
    if (it == d.node->segments.end()) continue;
    if (d.failed) {
      it->second.suspect = true;
      continue;
    }
    it->second.info.durable = d.size;
    durable.push_back(d.what);
  }
  return status;
}

/// After a sync that failed the kernel has forgotten which bytes it could not write: the next sync would succeed
/// without them. They are written again, to a new file, as far as they can still be read; the agent sends the rest
/// again.
Status Store::writeAgain(Segment& segment) {
  SegmentInfo& info = segment.info;
  Result<File> in = File::openRead(info.path);
  if (!in) return in.status();
  std::string bytes(info.size, 0);
  size_t got;
  TS_TRY(in->readAt(0, bytes.data(), bytes.size(), got));
  bytes.resize(got);
  Result<OutputFile> out = OutputFile::create(info.path);
  if (!out) return out.status();
  TS_TRY(out->write(bytes));
  if (sync_file_(out->file().fd()) != 0) return errnoStatus("sync", info.path);
  TS_TRY(out->commit());
  TS_TRY(syncFolder(std::filesystem::path(info.path).parent_path()));
  TS_TRY(rescan(segment));
  const std::string_view all = bytes;
  for (size_t at = sizeof(trace::FileHeader); at < info.intact;) {
    const Stretch s = stretchAt(all.substr(at), true);
    if (!s.sound) info.intact = at;
    at += s.size;
  }
  segment.suspect = false;
  return {};
}

std::vector<SegmentInfo> Store::segments(const std::string& name) const {
  std::vector<SegmentInfo> all;
  if (Node* node = find(name)) {
    std::lock_guard lock(node->mutex);
    for (const auto& [key, segment] : node->segments) {
      if (segment.info.size == 0) continue;
      all.push_back(segment.info);
      // One that does not say where it begins holds nothing that the one before has.
      if (all.size() > 1 && all.back().first_covered_ns == 0) all.back().first_covered_ns = all.end()[-2].covered_ns;
    }
  }
  return all;
}

std::vector<std::string> Store::nodes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) names.push_back(name);
  return names;
}

int64_t Store::coveredUntil(const std::string& name) const {
  Node* node = find(name);
  if (!node) return 0;
  std::lock_guard lock(node->mutex);
  return node->covered_ns;
}

uint64_t Store::bytes(const std::string& name) const {
  uint64_t sum = 0;
  for (const SegmentInfo& s : segments(name)) sum += s.size;
  return sum;
}

uint64_t Store::bytes() const {
  uint64_t sum = 0;
  for (const std::string& name : nodes()) sum += bytes(name);
  return sum;
}

uint64_t Store::events(const std::string& name) const {
  uint64_t sum = 0;
  for (const SegmentInfo& s : segments(name)) sum += s.events;
  return sum;
}

}  // namespace tracesmith::cluster
