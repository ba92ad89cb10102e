#include "analysis/summary/keeper.hpp"

#include <cstring>

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

}  // namespace

Result<std::unique_ptr<SummaryKeeper>> SummaryKeeper::create(const std::string& path, const WriterOptions& options) {
  Result<std::unique_ptr<Writer>> out = Writer::create(path, options);
  if (!out) return out.status();
  std::unique_ptr<SummaryKeeper> keeper(new SummaryKeeper);
  keeper->out_ = std::move(*out);
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
  BlockHeader header;
  const bool block = bytes.size() >= sizeof header &&
                     bytes.substr(0, sizeof kBlockMagic) ==
                         std::string_view(reinterpret_cast<const char*>(kBlockMagic), sizeof kBlockMagic);
  if (block) std::memcpy(&header, bytes.data(), sizeof header);
  const bool common = !block || header.table == kSchemaTable || header.table == kStringsTable;
  (common ? common_ : piece_).append(bytes);
  return {};
}

bool SummaryKeeper::due(int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  return piece_.size() >= kPieceBytes || now_ns - begun_ns_ >= kPieceNs;
}

Status SummaryKeeper::keep(int64_t now_ns) {
  begun_ns_ = now_ns;
  return summarizePiece(now_ns - kLateNs);
}

/// In memory: a full disk must not lose what was recorded.
Result<std::unique_ptr<Reader>> SummaryKeeper::takePiece() {
  Result<File> file = File::inMemory();
  if (!file) return file.status();
  std::string piece;
  {
    std::lock_guard lock(mutex_);
    TS_TRY(file->write(common_));
    piece.swap(piece_);
  }
  TS_TRY(file->write(piece));
  return Reader::open(file->path());
}

Status SummaryKeeper::summarizePiece(int64_t until) {
  Result<std::unique_ptr<Reader>> reader = takePiece();
  if (!reader) return reader.status();
  const bool last = until == INT64_MAX;
  SummaryOptions options;
  // A job that ends soon can be looked at as a whole.
  options.window_ns = last && pieces_ == 0 ? 0 : kSummaryWindowNs;
  options.until = until;
  options.later = last ? nullptr : whole_.get();
  options.state = &state_;
  options.threads = 1;  // the job needs the others
  ++pieces_;
  Result<SummaryStats> done = summarize(**reader, *out_, options);
  if (!done) return done.status();
  stats_.events += done->events;
  stats_.kept += done->kept;
  stats_.rank_steps += done->rank_steps;
  return {};
}

Status SummaryKeeper::close() {
  TS_TRY(summarizePiece(INT64_MAX));
  TS_TRY(whole_->close());
  return out_->close();
}

}  // namespace tracesmith::analysis
