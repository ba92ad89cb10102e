#include "trace/join.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "base/file.hpp"
#include "base/text.hpp"
#include "trace/batch.hpp"
#include "trace/block_bytes.hpp"
#include "trace/rows.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
namespace {

class Join {
 public:
  explicit Join(OutputFile& out) : out_(out) {}
  Status begin();
  Status add(const std::string& path);
  Status end(const std::vector<JoinLoss>& losses);
  JoinReport report;

 private:
  Status write(std::string block, uint32_t stream);
  Status copyNew(const Reader& reader, const TableInfo& table, int node_column, std::set<std::string>& known);
  Status lose(const JoinLoss& loss);
  Status unreadable(const std::string& why);
  Status copyBlocks(const std::string& path, std::string_view bytes);

  OutputFile& out_;
  std::unique_ptr<Writer> writer_;  // of the rows that are not copied as blocks: stream 0
  std::unique_ptr<Appender> rows_;
  bool header_ = true;
  uint64_t sequence_ = 0;
  uint32_t streams_ = 1;
  std::set<std::string> nodes_, clocks_;
};

Status Join::write(std::string block, uint32_t stream) {
  seal(block, sequence_++, stream);
  report.bytes += block.size();
  return out_.write(block);
}

Status Join::begin() {
  Result<std::unique_ptr<Writer>> writer = Writer::create([this](std::string_view bytes) {
    return std::exchange(header_, false) ? out_.write(bytes) : write(std::string(bytes), 0);
  });
  if (!writer) return writer.status();
  writer_ = std::move(*writer);
  rows_ = writer_->appender();
  return {};
}

/// Rows of nodes that no part before has described.
Status Join::copyNew(const Reader& reader, const TableInfo& table, int node_column, std::set<std::string>& known) {
  std::set<std::string> fresh;
  TS_TRY(forEachRow(reader, table, {}, {}, [&](const Row& row) -> Status {
    const std::string node(row.text(node_column));
    if (known.contains(node)) return {};
    fresh.insert(node);
    std::vector<int64_t> slots(table.columns.size());
    for (size_t c = 0; c < slots.size(); ++c) {
      const int column = static_cast<int>(c);
      const Kind kind = table.columns[c].kind;
      const bool words = kind == Kind::Str || kind == Kind::Text || kind == Kind::Launch;
      const std::string_view text = words ? row.text(column) : std::string_view();
      if (!words)
        slots[c] = row.slot(column);
      else if (!text.data())
        slots[c] = kNull;
      else
        slots[c] = kind == Kind::Text ? rows_->text(text) : writer_->string(text);
    }
    return rows_->appendSlots(table, slots.data());
  }));
  known.merge(fresh);
  return {};
}

Status Join::lose(const JoinLoss& loss) {
  LossRow row;
  row.cause = writer_->string(loss.cause);
  row.count = loss.count;
  row.detail = rows_->text(loss.detail);
  return rows_->append(row);
}

Status Join::copyBlocks(const std::string& path, std::string_view bytes) {
  Result<size_t> header = fileHeaderAt(bytes);
  if (!header) return unreadable(path + ": " + header.status().message());
  const uint32_t first = streams_;
  uint64_t damaged = 0;
  for (size_t at = *header; at < bytes.size();) {
    const Result<BlockBytes> block = blockAt(bytes.substr(at), true);
    if (!block) {
      // On to the next sound block.
      const std::string_view magic(reinterpret_cast<const char*>(kBlockMagic), sizeof kBlockMagic);
      size_t next = bytes.find(magic, at + 1);
      while (next != bytes.npos && !blockAt(bytes.substr(next))) next = bytes.find(magic, next + 1);
      next = std::min(next, bytes.size());
      damaged += next - at;
      at = next;
      continue;
    }
    const BlockHeader& h = block->header;
    const TableInfo* table = block->table();
    if (h.table == kStringsTable || (table && table != &tableOf<NodeRow>() && table != &tableOf<ClockRow>())) {
      TS_TRY(write(std::string(block->bytes), first + h.stream));
      streams_ = std::max(streams_, first + h.stream + 1);
      if (table == &tableOf<EventRow>()) report.events += h.rows;
    }
    at += h.block_size;
  }
  if (damaged == 0) return {};
  return unreadable(path + ": " + humanBytes(damaged) + " at its end or in it cannot be read");
}

/// What is wrong with a part does not keep the others from being joined.
Status Join::unreadable(const std::string& why) {
  report.problems.push_back(why);
  return lose({"damaged", why, 1});
}

Status Join::add(const std::string& path) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path);
  if (!reader) return unreadable(reader.status().message());
  TS_TRY(copyNew(**reader, tableOf<NodeRow>(), nodes::node, nodes_));
  TS_TRY(copyNew(**reader, tableOf<ClockRow>(), clocks::node, clocks_));
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  const size_t size = (*reader)->fileSize();
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return errnoStatus("map", path);
  const std::unique_ptr<void, std::function<void(void*)>> unmap(memory, [&](void* p) { ::munmap(p, size); });
  ++report.parts;
  return copyBlocks(path, {static_cast<const char*>(memory), size});
}

Status Join::end(const std::vector<JoinLoss>& losses) {
  for (const JoinLoss& loss : losses) TS_TRY(lose(loss));
  TS_TRY(rows_->flush());
  TS_TRY(writer_->flushStrings());
  report.nodes = nodes_.size();
  return out_.write(endBlock(sequence_));
}

}  // namespace

Result<JoinReport> joinTraces(const std::vector<std::string>& parts, const std::string& output,
                              const std::vector<JoinLoss>& losses) {
  Result<OutputFile> out = OutputFile::create(output);
  if (!out) return out.status();
  Join join(*out);
  TS_TRY(join.begin());
  for (const std::string& part : parts) TS_TRY(join.add(part));
  TS_TRY(join.end(losses));
  TS_TRY(out->commit());
  return std::move(join.report);
}

}  // namespace tracesmith::trace
