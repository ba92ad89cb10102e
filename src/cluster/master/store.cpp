#include "cluster/master/store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "access/names.hpp"
#include "cluster/wire/checkpoint.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

struct Store::Segment {
  SegmentInfo info;
  File file;  // open while it grows
};

struct Store::Node {
  mutable std::mutex mutex;  // guards what follows
  std::string folder;
  std::map<std::pair<std::string, uint32_t>, Segment> segments;  // by epoch and number: oldest first
  int64_t covered_ns = 0;
};

namespace {

constexpr size_t kHeadBytes = 4096;  // a block header and its directory, usually
constexpr size_t kManyFiles = 8;     // from here on one syncfs is cheaper than a sync of each

Status syncFolder(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errnoStatus("open", folder);
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL && errno != EROFS;
  Status status = failed ? errnoStatus("sync", folder) : Status();
  ::close(fd);
  return status;
}

}  // namespace

Store::~Store() = default;

void Store::absorb(SegmentInfo& info, const trace::BlockBytes& block) {
  info.size += block.header.block_size;
  int64_t low, high;
  if (isCheckpoint(block)) {
    info.covered_ns = std::max(info.covered_ns, checkpointTimes(block).covered_ns);
    if (info.first_covered_ns == 0) info.first_covered_ns = info.covered_ns;
  } else if (block.header.table == trace::kEndTable) {
    info.closed = true;
  } else if (block.times(low, high)) {
    info.first_ns = std::min(info.first_ns, low);
    info.last_ns = std::max(info.last_ns, high);
    info.rows += block.header.rows;
    if (block.table() == &trace::tableOf<trace::EventRow>()) info.events += block.header.rows;
  }
}

Result<std::unique_ptr<Store>> Store::open(const std::string& folder) {
  std::unique_ptr<Store> store(new Store());
  store->folder_ = folder + "/nodes";
  std::error_code error;
  TS_TRY(makePrivateFolder(store->folder_));
  for (const auto& entry : fs::directory_iterator(store->folder_, error)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || !access::checkName("node", name)) continue;
    auto node = std::make_unique<Node>();
    node->folder = entry.path();
    for (const auto& file : fs::directory_iterator(entry.path(), error)) {
      Segment segment;
      if (!parseSegmentFile(file.path().filename(), segment.info.epoch, segment.info.number)) continue;
      segment.info.node = name;
      segment.info.path = file.path();
      TS_TRY(store->scan(segment));
      node->covered_ns = std::max(node->covered_ns, segment.info.covered_ns);
      auto key = std::pair(segment.info.epoch, segment.info.number);
      node->segments.emplace(std::move(key), std::move(segment));
    }
    store->nodes_.emplace(name, std::move(node));
  }
  return store;
}

/// Goes from header to header. A master that was killed may have left a torn block at the end: it is cut off.
Status Store::scan(Segment& segment) {
  SegmentInfo& info = segment.info;
  Result<File> in = File::openRead(info.path);
  if (!in) return in.status();
  Result<uint64_t> size = in->size();
  if (!size) return size.status();
  std::string head;
  size_t got;
  uint64_t last = 0;
  auto read = [&](uint64_t offset, size_t bytes) {
    head.resize(bytes);
    Status s = in->readAt(offset, head.data(), head.size(), got);
    head.resize(got);
    return s;
  };
  TS_TRY(read(0, sizeof(trace::FileHeader)));
  if (trace::fileHeaderAt(head)) info.size = head.size();
  while (info.size > 0 && info.size < *size) {
    TS_TRY(read(info.size, kHeadBytes));
    trace::BlockBytes block;
    if (got < sizeof block.header) break;
    std::memcpy(&block.header, head.data(), sizeof block.header);
    const trace::BlockHeader& h = block.header;
    if (trace::headerProblem(h) || info.size + h.block_size > *size) break;
    if (sizeof h + h.directory_size > got) TS_TRY(read(info.size, sizeof h + h.directory_size));
    if (h.checksum != trace::blockChecksum(head.data(), h.directory_size)) break;
    block.bytes = head;
    last = info.size;
    absorb(info, block);
  }
  if (last > 0) {  // of the last one the columns too
    TS_TRY(read(last, info.size - last));
    if (!trace::blockAt(head, true)) info.size = last;
  }
  if (info.size < *size && ::truncate(info.path.c_str(), static_cast<off_t>(info.size)) != 0)
    return errnoStatus("cut", info.path);
  return {};
}

Store::Node* Store::find(const std::string& node) const {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(node);
  return it == nodes_.end() ? nullptr : it->second.get();
}

Result<Store::Node*> Store::findOrMake(const std::string& name) {
  TS_TRY(access::checkName("node", name));
  std::lock_guard lock(mutex_);
  std::unique_ptr<Node>& node = nodes_[name];
  if (!node) {
    auto fresh = std::make_unique<Node>();
    fresh->folder = folder_ + "/" + name;
    TS_TRY(makePrivateFolder(fresh->folder));
    TS_TRY(syncFolder(folder_));
    node = std::move(fresh);
  }
  return node.get();
}

Result<Store::Taken> Store::append(const std::string& name, const std::string& epoch, uint32_t number, uint64_t offset,
                                   std::string_view data) {
  std::string parsed_epoch;
  uint32_t parsed;
  const std::string file = segmentFile(epoch, number);
  if (!parseSegmentFile(file, parsed_epoch, parsed)) return Status::invalid("this is not a spool segment");
  Result<Node*> node = findOrMake(name);
  if (!node) return node.status();
  std::lock_guard lock((*node)->mutex);
  Segment& segment = (*node)->segments[{epoch, number}];
  SegmentInfo& info = segment.info;
  if (info.path.empty()) {
    info.node = name;
    info.epoch = epoch;
    info.number = number;
    info.path = (*node)->folder + "/" + file;
  }
  if (offset != info.size) return Taken{info.size, info.durable, true, 0, info.path};
  SegmentInfo after = info;
  std::string_view blocks = data;
  if (offset == 0) {
    Result<size_t> header = trace::fileHeaderAt(data);
    if (!header) return Status::invalid(header.status().message());
    blocks.remove_prefix(*header);
    after.size = *header;
  }
  while (!blocks.empty()) {
    Result<trace::BlockBytes> block = trace::blockAt(blocks, true);
    if (!block) return Status::invalid("node " + name + " sent an incomplete block: " + block.status().message());
    blocks.remove_prefix(block->header.block_size);
    absorb(after, *block);
  }
  if (!segment.file.isOpen()) {
    Result<File> out = File::openAppend(info.path);
    if (!out) return out.status();
    segment.file = std::move(*out);
    TS_TRY(syncFolder((*node)->folder));
  }
  if (Status s = segment.file.write(data); !s) {
    (void)::ftruncate(segment.file.fd(), static_cast<off_t>(info.size));  // no half block stays
    return s;
  }
  const uint64_t events = after.events - info.events;
  info = after;
  (*node)->covered_ns = std::max((*node)->covered_ns, info.covered_ns);
  return Taken{info.size, info.durable, false, events, info.path};
}

Result<std::vector<Store::Durable>> Store::sync() {
  struct Dirty {
    Node* node;
    Durable what;
    int fd;
  };
  std::vector<Dirty> dirty;
  std::vector<Node*> all;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, node] : nodes_) all.push_back(node.get());
  }
  for (Node* node : all) {
    std::lock_guard lock(node->mutex);
    for (auto& [key, s] : node->segments) {
      if (s.info.durable == s.info.size || s.info.size == 0) continue;
      int fd = s.file.isOpen() ? ::dup(s.file.fd()) : ::open(s.info.path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) return errnoStatus("open", s.info.path);
      dirty.push_back({node, {s.info.node, s.info.epoch, s.info.number, s.info.size}, fd});
      if (s.info.closed) s.file = File();  // complete: its descriptor is free for others
    }
  }
  Status status;
  if (dirty.size() >= kManyFiles) {
    if (::syncfs(dirty[0].fd) != 0) status = errnoStatus("sync", folder_);
  } else {
    for (const Dirty& d : dirty)
      if (::fdatasync(d.fd) != 0 && errno != EINVAL) status = errnoStatus("sync", folder_);
  }
  for (const Dirty& d : dirty) ::close(d.fd);
  TS_TRY(status);
  std::vector<Durable> durable;
  for (const Dirty& d : dirty) {
    std::lock_guard lock(d.node->mutex);
    auto it = d.node->segments.find({d.what.epoch, d.what.number});
    if (it != d.node->segments.end()) it->second.info.durable = d.what.size;
    durable.push_back(d.what);
  }
  return durable;
}

std::vector<SegmentInfo> Store::segments(const std::string& name) const {
  std::vector<SegmentInfo> all;
  if (Node* node = find(name)) {
    std::lock_guard lock(node->mutex);
    for (const auto& [key, segment] : node->segments)
      if (segment.info.size > 0) all.push_back(segment.info);
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

Status Store::remove(const SegmentInfo& segment) {
  Node* node = find(segment.node);
  if (!node) return {};
  std::lock_guard lock(node->mutex);
  node->segments.erase({segment.epoch, segment.number});
  if (::unlink(segment.path.c_str()) != 0 && errno != ENOENT) return errnoStatus("remove", segment.path);
  return {};
}

}  // namespace tracesmith::cluster
