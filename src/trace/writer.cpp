#include "tracesmith/trace/writer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/file.hpp"
#include "trace/batch.hpp"
#include "trace/block_bytes.hpp"
#include "trace/layout.hpp"
#include "trace/string_table.hpp"

namespace tracesmith::trace {
namespace {

// Tables of the file itself; their rows never pass through Appender.
constexpr ColumnInfo kStringsColumns[] = {{1, "id", Kind::Int, ""}, {2, "value", Kind::Text, ""}};
constexpr TableInfo kStrings = {kStringsTable, "strings", "", kStringsColumns};
constexpr ColumnInfo kSchemaColumns[] = {{1, "table", Kind::Int, ""},
                                         {2, "table_name", Kind::Text, ""},
                                         {3, "column", Kind::Int, ""},
                                         {4, "column_name", Kind::Text, ""},
                                         {5, "column_type", Kind::Int, ""}};
constexpr TableInfo kSchema = {kSchemaTable, "schema", "", kSchemaColumns};
constexpr TableInfo kEnd = {kEndTable, "end", "", {}};

constexpr size_t kMaxStringBytes = 1u << 20;     // a longer name is cut: no name of use is that long
constexpr size_t kMaxTextBytes = 8u << 20;       // of one value
constexpr size_t kFullTextBytes = 4u << 20;      // of one block
constexpr size_t kStringsBlockBytes = 4u << 20;  // strings are written before they pile up
static_assert(kFullTextBytes + kMaxTextBytes <= kMaxHeapBytes);

std::string schemaBlock(Encoder& encoder) {
  Batch batch(kSchema);
  for (const TableInfo& table : tables())
    for (const ColumnInfo& column : table.columns) {
      std::string texts = std::string(table.name) + column.name;
      size_t cut = std::strlen(table.name);
      const int64_t slots[] = {table.id, textSlot(0, cut), column.id, textSlot(cut, texts.size() - cut),
                               static_cast<int64_t>(diskType(column.kind))};
      batch.append(slots, texts);
    }
  return batch.encode(encoder);
}

}  // namespace

struct Writer::Impl {
  WriterOptions options;
  std::atomic<int> appenders{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> truncated{0};  // strings and texts too long to keep whole

  std::mutex strings_mutex;  // guards strings
  StringTable strings;

  std::mutex mutex;   // guards what follows
  TraceSink sink;     // where bytes go
  File file;          // in place, or
  OutputFile output;  // whole or absent, or none of them
  bool closed = false;
  Status state;  // the first write error stays; everything after it is refused
  uint64_t sequence = 0;
  Encoder encoder;  // for blocks of the file's own tables

  Status writeLocked(std::string& block) {
    TS_TRY(state);
    seal(block, sequence, 0);
    state = sink(block);
    if (state.ok()) {
      ++sequence;
      bytes += block.size();
    }
    return state;
  }

  /// Strings come before the first block that uses them: called under the lock, before each block.
  Status writeStringsLocked() {
    for (;;) {
      StringTable::New fresh;
      {
        std::lock_guard lock(strings_mutex);
        if (!strings.hasNew()) return {};
        fresh = strings.takeNew();
      }
      size_t offset = 0;
      for (size_t i = 0; i < fresh.lengths.size();) {
        Batch batch(kStrings);
        while (i < fresh.lengths.size() && batch.rows() < kMaxRows && batch.textBytes() < kStringsBlockBytes) {
          const int64_t slots[] = {fresh.first + static_cast<int64_t>(i), textSlot(offset, fresh.lengths[i])};
          batch.append(slots, fresh.bytes);
          offset += fresh.lengths[i++];
        }
        std::string block = batch.encode(encoder);
        TS_TRY(writeLocked(block));
      }
    }
  }

  Status commit(std::string& block) {
    std::lock_guard lock(mutex);
    TS_TRY(writeStringsLocked());
    return writeLocked(block);
  }
};

Writer::Writer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Writer::~Writer() = default;

Result<std::unique_ptr<Writer>> Writer::create(const std::string& path, const WriterOptions& options) {
  auto impl = std::make_unique<Impl>();
  if (options.whole_or_absent) {
    Result<OutputFile> output = OutputFile::create(path);
    if (!output) return output.status();
    impl->output = std::move(*output);
    impl->sink = [to = &impl->output](std::string_view bytes) { return to->file().write(bytes); };
  } else {
    Result<File> file = File::create(path);
    if (!file) return file.status();
    impl->file = std::move(*file);
    impl->sink = [to = &impl->file](std::string_view bytes) { return to->write(bytes); };
  }
  return begin(std::move(impl), options);
}

Result<std::unique_ptr<Writer>> Writer::create(TraceSink sink, const WriterOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->sink = std::move(sink);
  return begin(std::move(impl), options);
}

Result<std::unique_ptr<Writer>> Writer::begin(std::unique_ptr<Impl> impl, const WriterOptions& options) {
  impl->options = options;
  impl->options.block_rows = std::clamp<uint32_t>(options.block_rows, 1, kMaxRows);
  const std::string header = newFileHeader(options.created_ns, options.trace_id);
  TS_TRY(impl->sink(header));
  impl->bytes = header.size();
  std::string block = schemaBlock(impl->encoder);
  TS_TRY(impl->writeLocked(block));
  return std::unique_ptr<Writer>(new Writer(std::move(impl)));
}

int64_t Writer::string(std::string_view s) {
  std::lock_guard lock(impl_->strings_mutex);
  if (s.size() > kMaxStringBytes) ++impl_->truncated;
  return impl_->strings.intern(s.substr(0, kMaxStringBytes));
}

std::unique_ptr<Appender> Writer::appender() { return std::unique_ptr<Appender>(new Appender(*impl_)); }

Status Writer::commit(std::string block) { return impl_->commit(block); }

Status Writer::flushStrings() {
  std::lock_guard lock(impl_->mutex);
  TS_TRY(impl_->state);
  return impl_->writeStringsLocked();
}

Status Writer::sync() {
  std::lock_guard lock(impl_->mutex);
  TS_TRY(impl_->state);
  TS_TRY(impl_->writeStringsLocked());
  if (impl_->output.file().isOpen()) return impl_->output.file().sync();
  return impl_->file.isOpen() ? impl_->file.sync() : Status();
}

Status Writer::close() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->closed) return {};
  if (impl_->truncated > 0) {
    Batch losses(tableOf<LossRow>());
    LossRow row;
    {
      std::lock_guard strings_lock(impl_->strings_mutex);
      row.cause = impl_->strings.intern("truncated text");
    }
    row.count = static_cast<int64_t>(impl_->truncated.load());
    losses.append(reinterpret_cast<const int64_t*>(&row), {});
    TS_TRY(impl_->writeStringsLocked());
    std::string block = losses.encode(impl_->encoder);
    TS_TRY(impl_->writeLocked(block));
  }
  TS_TRY(impl_->writeStringsLocked());
  std::string end = Batch(kEnd).encode(impl_->encoder);
  TS_TRY(impl_->writeLocked(end));
  impl_->closed = true;
  if (impl_->output.file().isOpen()) return impl_->output.commit();
  return impl_->file.isOpen() ? impl_->file.close() : Status();
}

uint64_t Writer::bytesWritten() const { return impl_->bytes; }
const WriterOptions& Writer::options() const { return impl_->options; }

struct Appender::Impl {
  Writer::Impl& writer;
  Encoder encoder;
  std::vector<std::unique_ptr<Batch>> batches;  // two a table: device rows of events apart
  std::string texts;                            // of the row to be appended
  std::vector<std::string> kept;

  explicit Impl(Writer::Impl& w) : writer(w), encoder(w.options.zstd_level), batches(tables().size() * 2) {}

  bool full(const Batch& batch) const {
    if (batch.rows() >= writer.options.block_rows || batch.textBytes() >= kFullTextBytes) return true;
    if (batch.rows() % 256 != 0) return false;
    // An equal share of the memory for each appender, and for each of the two halves of events.
    return batch.bytes() >= writer.options.memory_bytes / 2 / static_cast<size_t>(std::max(1, writer.appenders.load()));
  }

  Status write(Batch& batch, bool keep) {
    if (batch.rows() == 0) return {};
    std::string block = batch.encode(encoder);
    batch.clear();
    if (!keep) return writer.commit(block);
    kept.push_back(std::move(block));
    return {};
  }
};

Appender::Appender(Writer::Impl& writer) : impl_(std::make_unique<Impl>(writer)) { ++writer.appenders; }

Appender::~Appender() {
  (void)flush();
  --impl_->writer.appenders;
}

int64_t Appender::text(std::string_view s) {
  if (s.size() > kMaxTextBytes) ++impl_->writer.truncated;
  s = s.substr(0, kMaxTextBytes);
  size_t offset = impl_->texts.size();
  impl_->texts.append(s);
  return textSlot(offset, s.size());
}

Status Appender::appendSlots(const TableInfo& table, const int64_t* slots) {
  auto index = static_cast<size_t>(&table - tables().data()) * 2;
  if (&table == &tableOf<EventRow>() && isDeviceType(static_cast<EventType>(slots[events::type]))) ++index;
  std::unique_ptr<Batch>& batch = impl_->batches[index];
  if (!batch) batch = std::make_unique<Batch>(table);
  batch->append(slots, impl_->texts);
  impl_->texts.clear();
  return impl_->full(*batch) ? impl_->write(*batch, keep_) : Status();
}

Status Appender::flush() {
  for (auto& batch : impl_->batches)
    if (batch) TS_TRY(impl_->write(*batch, keep_));
  return {};
}

Result<std::vector<std::string>> Appender::takeBlocks() {
  TS_TRY(flush());
  return std::exchange(impl_->kept, {});
}

}  // namespace tracesmith::trace
