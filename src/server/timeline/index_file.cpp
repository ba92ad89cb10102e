// The index on disk: a heading that says of which trace, then the vectors as they are in memory. A cache: any other
// version of it, and any doubt, means that it is made again.
#include <xxhash.h>

#include <cstring>

#include "base/file.hpp"
#include "server/timeline/index.hpp"

namespace tracesmith::server {
namespace {

constexpr char kMagic[16] = "TraceSmith til4";

struct Heading {
  char magic[16];
  char trace[32];
  uint64_t size, blocks;
  uint64_t bytes, sum;  // of what follows
};

Heading headingOf(const trace::Reader& reader) {
  Heading h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  const std::string id = reader.traceId();
  std::memcpy(h.trace, id.data(), std::min(id.size(), sizeof h.trace));
  h.size = reader.fileSize();
  h.blocks = reader.blocks().size();
  return h;
}

class Out {
 public:
  template <typename T>
  void value(const T& v) {
    bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  template <typename T>
  void list(const std::vector<T>& v) {
    value<uint64_t>(v.size());
    bytes.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
  }
  std::string bytes;
};

class In {
 public:
  explicit In(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  bool value(T& v) {
    if (rest_.size() < sizeof v) return false;
    std::memcpy(&v, rest_.data(), sizeof v);
    rest_.remove_prefix(sizeof v);
    return true;
  }
  template <typename T>
  bool list(std::vector<T>& v) {
    uint64_t n;
    if (!value(n) || n > rest_.size() / sizeof(T)) return false;
    v.resize(n);
    if (n > 0) std::memcpy(v.data(), rest_.data(), n * sizeof(T));
    rest_.remove_prefix(n * sizeof(T));
    return true;
  }
  bool count(size_t least, uint64_t& n) { return value(n) && n <= rest_.size() / least; }

 private:
  std::string_view rest_;
};

}  // namespace

void TimelineIndex::connect() {
  number_of.clear();
  for (size_t i = 0; i < tracks.size(); ++i) number_of[tracks[i].key] = static_cast<uint32_t>(i);
  for (size_t i = 0; i < blocks.size(); ++i) summary_of[blocks[i].block] = static_cast<uint32_t>(i);
}

Status TimelineIndex::save(const std::string& path, const trace::Reader& reader) const {
  Out out;
  out.value(origin);
  out.value(duration);
  out.value<uint64_t>(tracks.size());
  for (const TrackIndex& t : tracks) {
    out.value(t.key);
    out.value(t.events);
    out.value(t.shift);
    out.value(t.depth);
    out.list(t.buckets);
    out.list(t.longs);
    out.list(t.blocks);
  }
  out.value<uint64_t>(blocks.size());
  for (const BlockSummary& b : blocks) {
    out.value(b.block);
    out.value(b.whole);
    out.value(b.start);
    out.value(b.end);
    out.list(b.names);
  }
  Heading h = headingOf(reader);
  h.bytes = out.bytes.size();
  h.sum = XXH3_64bits(out.bytes.data(), out.bytes.size());
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.status();
  TS_TRY(file->write(std::string_view(reinterpret_cast<const char*>(&h), sizeof h)));
  TS_TRY(file->write(out.bytes));
  return file->commit();
}

Result<std::unique_ptr<TimelineIndex>> TimelineIndex::load(const std::string& path, const trace::Reader& reader) {
  const Status other = Status::notFound(path + " is not the index of " + reader.path());
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  Result<uint64_t> size = file->size();
  if (!size) return size.status();
  Heading h{}, want = headingOf(reader);
  size_t got;
  TS_TRY(file->readAt(0, &h, sizeof h, got));
  want.bytes = h.bytes;
  want.sum = h.sum;
  if (got != sizeof h || std::memcmp(&h, &want, sizeof h) != 0 || *size != sizeof h + h.bytes) return other;
  std::string bytes(h.bytes, '\0');
  TS_TRY(file->readAt(sizeof h, bytes.data(), bytes.size(), got));
  if (got != bytes.size() || XXH3_64bits(bytes.data(), bytes.size()) != h.sum) return other;

  auto index = std::make_unique<TimelineIndex>();
  In in(bytes);
  uint64_t n;
  if (!in.value(index->origin) || !in.value(index->duration) || !in.count(sizeof(TrackKey), n)) return other;
  index->tracks.resize(n);
  for (TrackIndex& t : index->tracks)
    if (!in.value(t.key) || !in.value(t.events) || !in.value(t.shift) || !in.value(t.depth) || !in.list(t.buckets) ||
        !in.list(t.longs) || !in.list(t.blocks))
      return other;
  if (!in.count(sizeof(uint32_t), n)) return other;
  index->blocks.resize(n);
  for (BlockSummary& b : index->blocks)
    if (!in.value(b.block) || !in.value(b.whole) || !in.value(b.start) || !in.value(b.end) || !in.list(b.names))
      return other;
  for (const TrackIndex& t : index->tracks)
    for (uint32_t b : t.blocks)
      if (b >= index->blocks.size()) return other;
  for (const BlockSummary& b : index->blocks) {
    if (b.block >= reader.blocks().size() || !isDrawn(*reader.blocks()[b.block].table)) return other;
    for (const NameStats& s : b.names)
      if (s.track >= index->tracks.size()) return other;
  }
  index->connect();
  return index;
}

}  // namespace tracesmith::server
