#include "analysis/summary/keeper.hpp"

#include <cstring>
#include <sstream>
#include <utility>

#include "analysis/summary/row_copy.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "trace/layout.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr int64_t kPieceNs = 30'000'000'000;
constexpr size_t kPieceBytes = 16u << 20;
constexpr int64_t kLateNs = 4'000'000'000;  // records of the device come at most so late, and wait for their operations

constexpr uint16_t kNoTable = 0xffff;

/// Of a block; kNoTable: it is the file's header.
uint16_t tableAt(std::string_view bytes) {
  BlockHeader header;
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kBlockMagic, sizeof kBlockMagic) != 0) return kNoTable;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.table;
}

/// In memory: a full disk must not lose what was recorded.
Result<std::unique_ptr<Reader>> readerOf(std::string_view begin, std::string_view rest) {
  Result<File> file = File::inMemory();
  if (!file) return file.status();
  TS_TRY(file->write(begin));
  TS_TRY(file->write(rest));
  return Reader::open(file->path());
}

}  // namespace

Result<std::unique_ptr<SummaryKeeper>> SummaryKeeper::create(const std::string& path, const WriterOptions& options) {
  Result<std::unique_ptr<Writer>> out = Writer::create(path, options);
  if (!out) return out.status();
  Writer* to = out->get();
  return create(std::move(*out), to);
}

Result<std::unique_ptr<SummaryKeeper>> SummaryKeeper::create(Writer& out) { return create(nullptr, &out); }

Result<std::unique_ptr<SummaryKeeper>> SummaryKeeper::create(std::unique_ptr<Writer> own, Writer* out) {
  std::unique_ptr<SummaryKeeper> keeper(new SummaryKeeper);
  keeper->own_ = std::move(own);
  keeper->out_ = out;
  Result<std::unique_ptr<Writer>> whole =
      Writer::create([k = keeper.get()](std::string_view bytes) { return k->take(bytes); });
  if (!whole) return whole.status();
  keeper->whole_ = std::move(*whole);
  return keeper;
}

SummaryKeeper::SummaryKeeper() : begun_ns_(static_cast<int64_t>(rawClock())) {}
SummaryKeeper::~SummaryKeeper() = default;

Status SummaryKeeper::take(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  const uint16_t table = tableAt(bytes);
  const bool common = table == kNoTable || table == kSchemaTable || table == kStringsTable;
  const bool again = std::this_thread::get_id() == worker_;
  (common ? common_ : again ? later_ : piece_).append(bytes);
  if (!pass_on_ || table == kNoTable || table == kSchemaTable || (again && !common)) return {};
  return pass_on_(bytes);
}

Status SummaryKeeper::passOn(TraceSink sink, bool all) {
  std::lock_guard lock(mutex_);
  pass_on_ = std::move(sink);
  if (!pass_on_) return {};
  auto pass = [&](std::string_view bytes) -> Status {
    while (!bytes.empty()) {
      BlockHeader header;
      std::memcpy(&header, bytes.data(), sizeof header);
      if (header.table != kSchemaTable) TS_TRY(pass_on_(bytes.substr(0, header.block_size)));
      bytes.remove_prefix(header.block_size);
    }
    return {};
  };
  TS_TRY(pass(std::string_view(common_).substr(sizeof(FileHeader))));
  return all ? pass(piece_) : Status();
}

std::string SummaryKeeper::takeUnsaved(bool& anew) {
  std::lock_guard lock(mutex_);
  anew = saved_common_ == 0;
  std::string bytes = common_.substr(saved_common_) + piece_.substr(saved_piece_);
  saved_common_ = common_.size();
  saved_piece_ = piece_.size();
  return bytes;
}

std::string SummaryKeeper::state() const {
  std::string text = std::to_string(pieces_) + " " + std::to_string(state_.until);
  for (const auto& [number, p] : state_.processes)
    for (const int64_t value : {number, p.until, static_cast<int64_t>(p.begun), p.host_late})
      text += " " + std::to_string(value);
  return text;
}

Status SummaryKeeper::restore(std::string_view saved, const std::string& state) {
  std::istringstream in(state);
  in >> pieces_ >> state_.until;
  SummaryState::Process p;
  for (int64_t number; in >> number >> p.until >> p.begun >> p.host_late;) state_.processes[number] = p;
  if (saved.empty()) return {};
  Result<std::unique_ptr<Reader>> reader = readerOf(saved, {});
  if (!reader) return reader.status();
  Result<NameNumbers> names = NameNumbers::load(**reader);
  if (!names) return names.status();
  RowCopy copy(*names, *whole_);
  for (const TableInfo& table : tables()) {
    SlotCursor rows(**reader, table, {}, {}, &*names);
    while (rows.next()) TS_TRY(copy.put(table, rows));
    TS_TRY(rows.status());
  }
  return copy.flush();
}

bool SummaryKeeper::due(int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  return piece_.size() >= kPieceBytes || now_ns - begun_ns_ >= kPieceNs;
}

Status SummaryKeeper::keep(int64_t now_ns) {
  TS_TRY(start(now_ns));
  return finish();
}

Status SummaryKeeper::keepAll() {
  TS_TRY(startAll());
  return finish();
}

Status SummaryKeeper::start(int64_t now_ns) { return startUntil(now_ns - kLateNs); }

Status SummaryKeeper::startUntil(int64_t until) {
  begun_ns_ = static_cast<int64_t>(rawClock());
  std::unique_lock lock(mutex_);
  taken_ = piece_.size();
  Result<std::unique_ptr<Reader>> reader = readerOf(common_, piece_);
  lock.unlock();
  if (!reader) return reader.status();
  next_ = state_;
  SummaryOptions options;
  const bool last = until == INT64_MAX;
  // A job that ends soon can be looked at as a whole.
  options.window_ns = last && pieces_ == 0 ? 0 : kSummaryWindowNs;
  options.until = until;
  options.later = last ? nullptr : whole_.get();
  options.state = &next_;
  options.threads = 1;  // the job needs the others
  work_ = std::async(std::launch::async, [this, options, piece = std::move(*reader)] {
    {
      std::lock_guard own(mutex_);
      worker_ = std::this_thread::get_id();
    }
    return summarize(*piece, *out_, options);
  });
  return {};
}

Status SummaryKeeper::finish() {
  Result<SummaryStats> made = work_.get();
  std::lock_guard lock(mutex_);
  worker_ = {};
  piece_ = std::exchange(later_, {}) + piece_.substr(taken_);
  saved_common_ = saved_piece_ = 0;
  if (!made) return made.status();
  state_ = next_;
  ++pieces_;
  stats_.events += made->events;
  stats_.kept += made->kept;
  stats_.rank_steps += made->rank_steps;
  return {};
}

Status SummaryKeeper::close() {
  TS_TRY(keepAll());
  TS_TRY(whole_->close());
  return own_->close();
}

}  // namespace tracesmith::analysis
