// The store as it is found: what an earlier run left, sound or not.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "access/names.hpp"
#include "cluster/master/store_parts.hpp"
#include "cluster/wire/checkpoint.hpp"
#include "cluster/wire/damage.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

namespace {

constexpr size_t kHeadBytes = 4096;  // a block header and its directory, usually

}  // namespace

void Store::absorb(SegmentInfo& info, const trace::BlockBytes& block) {
  const bool intact = info.intact == info.size;
  info.size += block.header.block_size;
  if (intact) info.intact = info.size;
  int64_t low, high;
  if (isCheckpoint(block)) {
    const int64_t covered = checkpointTimes(block).covered_ns;
    info.covered_ns = std::max(info.covered_ns, covered);
    info.first_covered_ns = std::min(info.first_covered_ns, covered);
  } else if (block.header.table == trace::kEndTable) {
    info.closed = true;
  } else if (block.times(low, high)) {
    info.first_ns = std::min(info.first_ns, low);
    info.last_ns = std::max(info.last_ns, high);
    info.rows += block.header.rows;
    if (block.table() == &trace::tableOf<trace::EventRow>()) info.events += block.header.rows;
  }
}

Result<std::unique_ptr<Store>> Store::open(const std::string& folder, SyncFile sync_file) {
  std::unique_ptr<Store> store(new Store());
  store->sync_file_ = std::move(sync_file);
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
    // An agent closes a segment before it begins the next one, whether the end mark can be read or not.
    for (auto it = node->segments.begin(); it != node->segments.end();) {
      SegmentInfo& info = it->second.info;
      if (++it != node->segments.end() && it->first.first == info.epoch) info.closed = true;
    }
    readLists(*node);
    store->nodes_.emplace(name, std::move(node));
  }
  return store;
}

/// Goes from header to header, over damage to the next sound one. What is behind the last sound block is a torn end of
/// a master that was killed, or was damaged there: it is not counted, and stays until something better comes.
Status Store::scan(Segment& segment) {
  SegmentInfo& info = segment.info;
  Result<File> in = File::openRead(info.path);
  if (!in) return in.status();
  Result<uint64_t> size = in->size();
  if (!size) return size.status();
  std::string head;
  size_t got;
  auto read = [&](uint64_t offset, size_t bytes) {
    head.resize(bytes);
    Status s = in->readAt(offset, head.data(), head.size(), got);
    head.resize(got);
    return s;
  };
  TS_TRY(read(0, sizeof(trace::FileHeader)));
  const bool header = trace::fileHeaderAt(head).ok();
  uint64_t at = sizeof(trace::FileHeader);
  if (header) info.size = info.intact = at;
  while (at < *size) {
    TS_TRY(read(at, kHeadBytes));
    trace::BlockBytes block;
    trace::BlockHeader& h = block.header;
    bool sound = got >= sizeof h;
    if (sound) {
      std::memcpy(&h, head.data(), sizeof h);
      sound = !trace::headerProblem(h) && at + h.block_size <= *size;
    }
    if (sound) {
      if (sizeof h + h.directory_size > got) TS_TRY(read(at, sizeof h + h.directory_size));
      sound = h.checksum == trace::blockChecksum(head.data(), h.directory_size);
    }
    if (sound && at + h.block_size == *size) {  // of the last one the columns too: it may be torn
      TS_TRY(read(at, h.block_size));
      sound = trace::blockAt(head, true).ok();
    }
    if (!sound) {
      TS_TRY(read(at, *size - at));
      const Stretch damage = stretchAt(head, true);
      if (damage.open || at + damage.size >= *size) break;
      at += damage.size;
      continue;
    }
    block.bytes = head;
    if (info.size < at) info.size = at;  // over damage
    absorb(info, block);
    at += h.block_size;
  }
  if (!header && info.size > 0) {  // blocks without a header: it says nothing that they need
    const std::string fresh = trace::newFileHeader();
    const int fd = ::open(info.path.c_str(), O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && ::pwrite(fd, fresh.data(), fresh.size(), 0) == static_cast<ssize_t>(fresh.size());
    const Status status = written ? Status() : errnoStatus("write", info.path);
    if (fd >= 0) ::close(fd);
    TS_TRY(status);
  }
  return {};
}

/// Before what is damaged comes again: what was sound up to there goes on in a new file, the old one stays beside it.
Status Store::setAside(Segment& segment) {
  SegmentInfo& info = segment.info;
  Result<File> in = File::openRead(info.path);
  if (!in) return in.status();
  std::string sound(info.intact, 0);
  size_t got;
  TS_TRY(in->readAt(0, sound.data(), sound.size(), got));
  Result<OutputFile> out = OutputFile::create(info.path);
  if (!out) return out.status();
  TS_TRY(out->write(sound));
  const std::string aside = info.path + kDamagedEnding;
  if (::link(info.path.c_str(), aside.c_str()) != 0 && errno != EEXIST) return errnoStatus("create", aside);
  TS_TRY(out->commitDurably());
  return rescan(segment);
}

/// After its file was replaced.
Status Store::rescan(Segment& segment) {
  SegmentInfo& info = segment.info;
  SegmentInfo fresh;
  fresh.node = info.node;
  fresh.epoch = info.epoch;
  fresh.path = info.path;
  fresh.number = info.number;
  info = fresh;
  segment.file = File();
  return scan(segment);
}

}  // namespace tracesmith::cluster
