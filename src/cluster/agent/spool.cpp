#include "cluster/agent/spool.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <vector>

#include "access/names.hpp"
#include "cluster/wire/segment.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

namespace {

constexpr size_t kReadBytes = 1u << 20;
constexpr size_t kLeastPiece = 4096;  // a file header and a block header fit in any case

/// Time first, so that names sort as they were made.
std::string newEpoch(const std::string& after) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  char text[16];
  std::snprintf(text, sizeof text, "%012" PRIx64, static_cast<uint64_t>(ms.count()));
  std::string epoch = text;
  if (epoch <= after.substr(0, 12)) {  // the clock was set back: still after what is there
    std::snprintf(text, sizeof text, "%012" PRIx64,
                  static_cast<uint64_t>(std::stoull(after.substr(0, 12), nullptr, 16) + 1));
    epoch = text;
  }
  return epoch + access::randomHex(4);
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::open(const std::string& folder) {
  std::error_code error;
  TS_TRY(makePrivateFolder(folder));
  std::unique_ptr<Spool> spool(new Spool());
  spool->folder_ = folder;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  std::string epoch, last;
  uint32_t number;
  for (const std::string& file : files) {
    if (!parseSegmentFile(file, epoch, number)) continue;
    last = epoch;
    TS_TRY(spool->recover(file, epoch, number));
  }
  spool->epoch_ = newEpoch(last);
  return spool;
}

/// Finds the last checkpoint, cuts what comes after it and closes the file.
Status Spool::recover(const std::string& file, const std::string& epoch, uint32_t number) {
  const std::string path = folder_ + "/" + file;
  Segment segment{epoch, number, 0, 0, 0, true};
  uint64_t safe = 0, next_sequence = 0;
  bool closed = false;
  {
    Result<File> in = File::openRead(path);
    if (!in) return in.status();
    std::string bytes;
    uint64_t base = 0;  // of `bytes` in the file
    size_t at = 0, want = kReadBytes;
    bool header = true;
    for (;;) {
      if (header || bytes.size() - at < sizeof(trace::BlockHeader) || want > bytes.size() - at) {
        base += at;
        size_t got;
        bytes.resize(std::max(want, kReadBytes));
        TS_TRY(in->readAt(base, bytes.data(), bytes.size(), got));
        bytes.resize(got);
        at = 0;
      }
      if (header) {
        Result<size_t> size = trace::fileHeaderAt(bytes);
        if (!size) break;
        at = *size;
        header = false;
        want = 0;
        continue;
      }
      Result<trace::BlockBytes> block = trace::blockAt(std::string_view(bytes).substr(at), true);
      if (!block) {
        trace::BlockHeader h{};
        if (bytes.size() - at >= sizeof h) std::memcpy(&h, bytes.data() + at, sizeof h);
        if (block.status().code() == Code::kExhausted && h.block_size > want && !trace::headerProblem(h)) {
          want = h.block_size;  // read it whole
          continue;
        }
        break;
      }
      want = 0;
      at += block->header.block_size;
      if (isCheckpoint(*block)) {
        Result<Checkpoint> c = decodeCheckpoint(*block);
        if (!c) break;
        recovered_ = std::move(*c);
        safe = base + at;
        next_sequence = block->header.sequence + 1;
      } else if (block->header.table == trace::kEndTable) {
        closed = true;
        safe = base + at;
      }
    }
  }
  if (safe == 0) {  // nobody has seen anything of it
    ::unlink(path.c_str());
    return {};
  }
  if (::truncate(path.c_str(), static_cast<off_t>(safe)) != 0) return errnoStatus("cut", path);
  if (!closed) {
    Result<File> out = File::openAppend(path);
    if (!out) return out.status();
    const std::string end = trace::endBlock(next_sequence);
    TS_TRY(out->write(end));
    safe += end.size();
  }
  segment.size = safe;
  segments_.push_back(std::move(segment));
  return {};
}

std::string Spool::path(const Segment& segment) const {
  return folder_ + "/" + segmentFile(segment.epoch, segment.number);
}

Status Spool::beginSegment() {
  Segment segment{epoch_, next_segment_, 0, 0, 0, false};
  trace::WriterOptions options;
  options.memory_bytes = 16u << 20;
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(path(segment), options);
  if (!writer) return writer.status();
  writer_ = std::move(*writer);
  ++next_segment_;
  std::lock_guard lock(mutex_);
  segments_.push_back(std::move(segment));
  return {};
}

Status Spool::checkpoint(const Checkpoint& checkpoint) {
  TS_TRY(writer_->commit(encodeCheckpoint(checkpoint)));
  std::lock_guard lock(mutex_);
  segments_.back().size = writer_->bytesWritten();
  removeDone();
  woken_ = true;
  changed_.notify_all();
  return {};
}

Status Spool::closeSegment() {
  TS_TRY(writer_->close());
  std::lock_guard lock(mutex_);
  segments_.back().size = writer_->bytesWritten();
  segments_.back().closed = true;
  writer_.reset();
  woken_ = true;
  changed_.notify_all();
  return {};
}

void Spool::abandonSegment() {
  if (!writer_) return;
  writer_.reset();
  std::lock_guard lock(mutex_);
  Segment& segment = segments_.back();
  if (segment.size == 0) {
    ::unlink(path(segment).c_str());
    segments_.pop_back();
    return;
  }
  if (::truncate(path(segment).c_str(), static_cast<off_t>(segment.size)) == 0) segment.closed = true;
}

Result<bool> Spool::next(size_t most, Piece& piece) {
  std::string file;
  uint64_t left;
  {
    std::lock_guard lock(mutex_);
    auto it = std::find_if(segments_.begin(), segments_.end(), [](const Segment& s) { return s.sent < s.size; });
    if (it == segments_.end()) return false;
    piece.epoch = it->epoch;
    piece.segment = it->number;
    piece.offset = it->sent;
    left = it->size - it->sent;
    file = path(*it);
  }
  Result<File> in = File::openRead(file);
  if (!in) return in.status();
  // Whole blocks: as many as fit, at least one.
  size_t got;
  piece.data.resize(std::min<uint64_t>(left, std::max(most, kLeastPiece)));
  TS_TRY(in->readAt(piece.offset, piece.data.data(), piece.data.size(), got));
  size_t whole = piece.offset == 0 ? sizeof(trace::FileHeader) : 0;
  for (;;) {
    trace::BlockHeader h;
    if (piece.data.size() < whole + sizeof h) break;
    std::memcpy(&h, piece.data.data() + whole, sizeof h);
    if (trace::headerProblem(h))
      return Status::corrupt(file + " is damaged at offset " + std::to_string(piece.offset + whole));
    if (whole + h.block_size > piece.data.size()) {
      if (whole > sizeof(trace::FileHeader) || whole + h.block_size > left) break;
      piece.data.resize(whole + h.block_size);  // one block larger than a piece
      TS_TRY(in->readAt(piece.offset, piece.data.data(), piece.data.size(), got));
    }
    whole += h.block_size;
  }
  piece.data.resize(whole);
  if (whole == 0) return Status::corrupt(file + " is damaged at offset " + std::to_string(piece.offset));
  std::lock_guard lock(mutex_);
  for (Segment& s : segments_)
    if (s.epoch == piece.epoch && s.number == piece.segment) s.sent = piece.offset + whole;
  return true;
}

void Spool::wait(int timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return woken_; });
  woken_ = false;
}

void Spool::wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void Spool::acknowledge(const std::string& epoch, uint32_t number, uint64_t size, bool restart) {
  std::lock_guard lock(mutex_);
  for (Segment& s : segments_) {
    if (s.epoch != epoch || s.number != number) continue;
    if (restart)
      s.sent = std::min(size, s.size);  // there, but not yet safe
    else
      s.acknowledged = std::max(s.acknowledged, std::min(size, s.size));
    s.sent = std::max(s.sent, s.acknowledged);
  }
  removeDone();
  woken_ = true;
  changed_.notify_all();
}

/// The last segment with a checkpoint stays: the next run goes on from it.
void Spool::removeDone() {
  while (!held_ && segments_.size() > 1 && segments_[1].size > 0) {
    const Segment& s = segments_.front();
    if (!s.closed || s.acknowledged < s.size) return;
    ::unlink(path(s).c_str());
    segments_.pop_front();
  }
}

void Spool::hold(bool held) {
  std::lock_guard lock(mutex_);
  held_ = held;
  removeDone();
}

std::vector<std::pair<std::string, uint64_t>> Spool::files() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, uint64_t>> all;
  for (const Segment& s : segments_)
    if (s.size > 0) all.emplace_back(path(s), s.size);
  return all;
}

void Spool::rewind() {
  std::lock_guard lock(mutex_);
  for (Segment& s : segments_) s.sent = s.acknowledged;
  woken_ = true;
}

uint64_t Spool::unacknowledged() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Segment& s : segments_) bytes += s.size - s.acknowledged;
  return bytes;
}

uint64_t Spool::inFlight() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const Segment& s : segments_) bytes += s.sent - s.acknowledged;
  return bytes;
}

}  // namespace tracesmith::cluster
