#include "cluster/agent/spool.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "access/names.hpp"
#include "cluster/wire/damage.hpp"
#include "cluster/wire/segment.hpp"
#include "model/travel_lines.hpp"
#include "trace/batch.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

namespace {

constexpr size_t kReadBytes = 1u << 20;
constexpr const char* kRemovedFile = "/removed";
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
  std::ifstream removed(folder + kRemovedFile);
  model::fromLines(std::string((std::istreambuf_iterator<char>(removed)), {}), spool->removed_);
  if (!parseSegmentFile(segmentFile(spool->removed_.epoch, spool->removed_.segment), epoch, number))
    spool->removed_ = {};  // there was none, or half of a line
  spool->epoch_ = newEpoch(std::max(last, spool->removed_.epoch));
  return spool;
}

/// Finds the last checkpoint, cuts what comes after it and closes the file. Damage before it stays where it is: what
/// follows is sound, and next() says what is lost.
Status Spool::recover(const std::string& file, const std::string& epoch, uint32_t number) {
  const std::string path = folder_ + "/" + file;
  Segment segment;
  segment.epoch = epoch;
  segment.number = number;
  segment.closed = true;
  uint64_t safe = 0, next_sequence = 0;
  bool closed = false;
  {
    Result<File> in = File::openRead(path);
    if (!in) return in.status();
    Result<uint64_t> size = in->size();
    if (!size) return size.status();
    std::string bytes;
    size_t at = 0, want = kReadBytes;
    for (uint64_t base = 0;;) {  // of `bytes` in the file
      const bool all = base + bytes.size() >= *size;
      if (!all && want > bytes.size() - at) {
        base += at;
        size_t got;
        bytes.resize(std::min<uint64_t>(std::max(want, kReadBytes), *size - base));
        TS_TRY(in->readAt(base, bytes.data(), bytes.size(), got));
        bytes.resize(got);
        at = 0;
      }
      if (base + at == 0) at = std::min(bytes.size(), sizeof(trace::FileHeader));
      const Stretch s = stretchAt(std::string_view(bytes).substr(at), true);
      if (s.size == 0 && base + at >= *size) break;
      if (s.open || s.size == 0) {
        if (base + bytes.size() >= *size) break;  // torn
        want = 2 * std::max(want, bytes.size() - at);
        continue;
      }
      want = kLeastPiece;
      at += s.size;
      if (!s.sound) continue;
      if (isCheckpoint(s.block)) {
        Result<Checkpoint> c = decodeCheckpoint(s.block);
        if (!c) continue;
        next_sequence = s.block.header.sequence + 1;
        recovered_ = std::move(*c);
        segment.covered_ns = recovered_.covered_ns;
        safe = base + at;
      } else if (s.block.header.table == trace::kEndTable) {
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
    std::string end = encodeCheckpoint(recovered_);
    trace::seal(end, next_sequence, 0);
    end += trace::endBlock(next_sequence + 1);
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
  Segment segment;
  segment.epoch = epoch_;
  segment.number = next_segment_;
  trace::WriterOptions options;
  options.memory_bytes = 16u << 20;
  Result<File> file = File::create(path(segment));
  if (!file) return file.status();
  file_ = std::move(*file);
  rows_ = {};
  last_ = {};
  auto write = [this, header = true](std::string_view bytes) mutable {
    if (std::exchange(header, false)) return file_.write(bytes);
    trace::BlockHeader h;
    std::memcpy(&h, bytes.data(), sizeof h);
    rows_.add(h);
    if (stream_ == 0) return file_.write(bytes);
    std::string block(bytes);
    trace::seal(block, h.sequence, stream_);
    return file_.write(block);
  };
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(write, options);
  if (!writer) return writer.status();
  writer_ = std::move(*writer);
  ++next_segment_;
  std::lock_guard lock(mutex_);
  segments_.push_back(std::move(segment));
  return {};
}

Status Spool::commit(std::string_view block, uint32_t stream) {
  TS_TRY(writer_->flushStrings());  // they are of another stream
  stream_ = stream;
  const Status status = writer_->commit(std::string(block));
  stream_ = 0;
  return status;
}

Status Spool::checkpoint(const Checkpoint& checkpoint) {
  TS_TRY(writer_->flushStrings());
  last_ = checkpoint;
  last_.rows = rows_;
  TS_TRY(writer_->commit(encodeCheckpoint(last_)));
  std::lock_guard lock(mutex_);
  segments_.back().size = writer_->bytesWritten();
  segments_.back().covered_ns = std::max(segments_.back().covered_ns, checkpoint.covered_ns);
  removeDone();
  woken_ = true;
  changed_.notify_all();
  return {};
}

Status Spool::closeSegment() {
  TS_TRY(writer_->commit(encodeCheckpoint(last_)));
  TS_TRY(writer_->close());
  TS_TRY(file_.close());
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
  file_ = File();
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
    auto it = std::find_if(segments_.begin(), segments_.end(), [](const Segment& s) { return !s.known && !s.asked; });
    if (it != segments_.end()) {
      it->asked = true;
      piece = {it->epoch, it->number, 0, {}};
      return true;
    }
    it = std::find_if(segments_.begin(), segments_.end(), [](const Segment& s) { return !s.known || s.sent < s.size; });
    if (it == segments_.end() || !it->known) return false;  // they go in order
    piece = {it->epoch, it->number, it->sent, {}};
    left = it->size - it->sent;
    file = path(*it);
  }
  Result<File> in = File::openRead(file);
  if (!in) return in.status();
  // Whole blocks: as many as fit, at least one.
  const size_t header = piece.offset == 0 ? sizeof(trace::FileHeader) : 0;
  std::string& data = piece.data;
  size_t got, whole = header;
  for (size_t want = std::max(most, kLeastPiece); whole == header; want *= 2) {
    data.resize(std::min<uint64_t>(left, want));
    TS_TRY(in->readAt(piece.offset, data.data(), data.size(), got));
    if (got < data.size()) return Status::io(file + " was cut while the agent ran");
    if (header > 0 && !trace::fileHeaderAt(data)) data.replace(0, header, trace::newFileHeader());
    while (whole < data.size()) {
      const Stretch s = stretchAt(std::string_view(data).substr(whole), true);
      if (s.open && data.size() < left) break;  // goes on behind what was read
      if (!s.sound) data.replace(whole, s.size, damagedBlock(std::string_view(data).substr(whole, s.size), s.rows));
      whole += s.size;
    }
    if (data.size() == left) break;
  }
  data.resize(whole);
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
    if (restart) {
      s.known = true;
      s.sent = std::min(size, s.size);  // there, but not yet safe
      s.acknowledged = std::min(s.acknowledged, s.sent);
    } else {
      s.acknowledged = std::max(s.acknowledged, std::min(size, s.size));
      s.sent = std::max(s.sent, s.acknowledged);
    }
  }
  removeDone();
  woken_ = true;
  changed_.notify_all();
}

/// The last segment with a checkpoint stays: the next run goes on from it. Under mutex_.
void Spool::removeDone() {
  while (!held_ && segments_.size() > 1 && segments_[1].size > 0) {
    const Segment& s = segments_.front();
    if (!s.closed || !s.known || s.acknowledged < s.size) return;
    removed_ = {s.epoch, s.number, s.size, s.covered_ns};
    if (Result<OutputFile> out = OutputFile::create(folder_ + kRemovedFile);
        out && out->write(model::toLines(removed_)))
      (void)out->commit();  // a full disk: there will be room now
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
  for (Segment& s : segments_) {
    s.sent = s.acknowledged;
    s.asked = s.known = false;
  }
  woken_ = true;
}

model::SpoolMark Spool::removed() const {
  std::lock_guard lock(mutex_);
  return removed_;
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
