#include "sync/align.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "sync/clock_table.hpp"
#include "trace/batch.hpp"
#include "trace/block_bytes.hpp"
#include "trace/encoding.hpp"

namespace tracesmith::sync {

using namespace trace;

namespace {

/// Columns of a table that are times of the row's node.
struct Times {
  int node = -1, start = -1, duration = -1;
  std::vector<int> all;
  explicit Times(const TableInfo& table) {
    node = table.find("node");
    if (node < 0 || &table == &tableOf<ClockRow>()) return;
    start = table.find("ts");
    duration = table.find("dur");
    for (const char* name : {"ts", "ts_enqueue", "ts_start"})
      if (const int c = table.find(name); c >= 0) all.push_back(c);
  }
  bool any() const { return !all.empty(); }
};

class Align {
 public:
  Align(const Reader& reader, std::map<std::string, ClockTable> clocks, File& out)
      : reader_(reader), clocks_(std::move(clocks)), out_(out) {}

  Status run();

 private:
  Status write(std::string block, uint32_t stream) {
    seal(block, sequence_++, stream);
    return out_.write(block);
  }
  Status rewrite(const Block& block, const Times& times);
  const ClockTable* clockOf(const Strings& strings, int64_t node);

  const Reader& reader_;
  std::map<std::string, ClockTable> clocks_;
  File& out_;
  uint64_t sequence_ = 0;
  Encoder encoder_{1};
};

const ClockTable* Align::clockOf(const Strings& strings, int64_t node) {
  auto it = clocks_.find(std::string(strings.at(node)));
  return it == clocks_.end() ? nullptr : &it->second;
}

Status Align::rewrite(const Block& block, const Times& times) {
  const TableInfo& table = *block.table;
  const size_t columns = table.columns.size();
  std::vector<ColumnData> data(columns);
  BlockDecoder decoder(reader_);
  for (size_t c = 0; c < columns; ++c)
    if (!decoder.decode(block, static_cast<int>(c), data[c])) return {};  // it is in the reader's damage now
  Result<const Strings*> strings = reader_.strings(block.stream);
  if (!strings) return strings.status();
  Batch batch(table);
  std::vector<int64_t> slots(columns);
  std::string texts;
  int64_t node = kNull;
  const ClockTable* clock = nullptr;
  for (size_t r = 0; r < block.rows; ++r) {
    texts.clear();
    for (size_t c = 0; c < columns; ++c) {
      const Kind kind = table.columns[c].kind;
      slots[c] = slotAt(data[c], kind, r);
      if (slots[c] == kNull || kind != Kind::Text) continue;
      const std::string_view text = data[c].textAt(r);
      slots[c] = textSlot(texts.size(), text.size());
      texts.append(text);
    }
    auto at = [&](int c) -> int64_t& { return slots[static_cast<size_t>(c)]; };
    if (at(times.node) != node) {
      node = at(times.node);
      clock = clockOf(**strings, node);
    }
    if (clock) {
      if (times.start >= 0 && times.duration >= 0 && at(times.start) != kNull && at(times.duration) != kNull) {
        const int64_t from = at(times.start), to = from + at(times.duration);
        at(times.duration) = std::max<int64_t>(0, clock->toReference(to) - clock->toReference(from));
      }
      for (int c : times.all)
        if (at(c) != kNull) at(c) = clock->toReference(at(c));
    }
    batch.append(slots.data(), texts);
  }
  return write(batch.encode(encoder_), block.stream);
}

Status Align::run() {
  Result<File> file = File::openRead(reader_.path());
  if (!file) return file.status();
  const size_t size = reader_.fileSize() - reader_.unfinishedBytes();
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return errnoStatus("map", reader_.path());
  const std::unique_ptr<void, std::function<void(void*)>> unmap(memory, [&](void* p) { ::munmap(p, size); });
  const std::string_view bytes(static_cast<const char*>(memory), size);
  TS_TRY(out_.write(newFileHeader(reader_.createdNs())));
  auto known = reader_.blocks().begin();
  const auto last = reader_.blocks().end();
  for (size_t at = sizeof(FileHeader); at < size;) {
    Result<BlockBytes> block = blockAt(bytes.substr(at));
    while (known != last && known->offset < at) ++known;
    if (!block) {  // damaged: on with the next that is whole
      if (known == last) break;
      at = known->offset;
      continue;
    }
    if (block->header.table == kStringsTable) {
      TS_TRY(write(std::string(block->bytes), block->header.stream));
    } else if (known != last && known->offset == at && known->table != &tableOf<ClockRow>()) {
      const Times times(*known->table);
      TS_TRY(times.any() ? rewrite(*known, times) : write(std::string(block->bytes), known->stream));
    }
    at += block->header.block_size;
  }
  return out_.write(endBlock(sequence_));
}

}  // namespace

Result<bool> needsAlignment(const Reader& reader) {
  Result<std::map<std::string, ClockTable>> clocks = readClocks(reader);
  if (!clocks) return clocks.status();
  return clocks->size() > 1;
}

Status alignTrace(const Reader& reader, const std::string& path) {
  Result<std::map<std::string, ClockTable>> clocks = readClocks(reader);
  if (!clocks) return clocks.status();
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(Align(reader, std::move(*clocks), out->file()).run());
  return out->commit();
}

}  // namespace tracesmith::sync
