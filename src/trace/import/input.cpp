#include "trace/import/input.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace tracesmith::trace {
namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(File file) : file_(std::move(file)) {}
  Status read(char* buffer, size_t size, size_t& got) override {
    TS_TRY(file_.readNext(buffer, size, got));
    consumed_ += got;
    return {};
  }
  uint64_t consumed() const override { return consumed_; }

 private:
  File file_;
  std::atomic<uint64_t> consumed_{0};
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string_view bytes, size_t piece) : bytes_(bytes), piece_(piece) {}
  Status read(char* buffer, size_t size, size_t& got) override {
    got = std::min({size, piece_, bytes_.size() - at_});
    if (got > 0) std::memcpy(buffer, bytes_.data() + at_, got);
    at_ += got;
    return {};
  }
  uint64_t consumed() const override { return at_; }

 private:
  std::string_view bytes_;
  size_t piece_, at_ = 0;
};

/// Hands pieces from one thread to another.
class ReadAhead : public ByteSource {
 public:
  explicit ReadAhead(std::unique_ptr<ByteSource> source) : source_(std::move(source)), thread_([this] { fill(); }) {}

  ~ReadAhead() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status read(char* buffer, size_t size, size_t& got) override {
    got = 0;
    if (at_ == piece_.size()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !ready_.empty() || done_; });
      if (ready_.empty()) return state_;
      free_.push_back(std::move(piece_));
      piece_ = std::move(ready_.front());
      ready_.pop_front();
      at_ = 0;
      changed_.notify_all();
    }
    got = std::min(size, piece_.size() - at_);
    std::memcpy(buffer, piece_.data() + at_, got);
    at_ += got;
    return {};
  }

  uint64_t consumed() const override { return source_->consumed(); }

 private:
  static constexpr size_t kPieceBytes = 1 << 20;
  static constexpr size_t kPieces = 4;

  void fill() {
    for (;;) {
      std::vector<char> piece;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ready_.size() < kPieces || stop_; });
        if (stop_) return;
        if (!free_.empty()) {
          piece = std::move(free_.back());
          free_.pop_back();
        }
      }
      piece.resize(kPieceBytes);
      size_t used = 0;
      Status status;
      for (size_t got = 1; status.ok() && got > 0 && used < piece.size(); used += got)
        if (status = source_->read(piece.data() + used, piece.size() - used, got); !status) break;
      piece.resize(used);
      std::lock_guard lock(mutex_);
      if (used > 0) ready_.push_back(std::move(piece));
      if (!status || used < kPieceBytes) {
        state_ = status;
        done_ = true;
      }
      changed_.notify_all();
      if (done_) return;
    }
  }

  std::unique_ptr<ByteSource> source_;  // the thread's
  std::vector<char> piece_;             // the reader's
  size_t at_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::vector<char>> ready_, free_;
  Status state_;
  bool done_ = false, stop_ = false;
  std::thread thread_;  // last: starts when everything is there
};

}  // namespace

InputKind kindOf(std::string_view b) {
  if (b.empty()) return InputKind::kEmpty;
  if (b.size() >= 2 && b[0] == '\x1f' && b[1] == '\x8b') return InputKind::kGzip;
  if (b.size() >= 6 && b.substr(0, 4) == std::string_view("SBT\0", 4))
    return b[4] == 0 && b[5] == 0 ? InputKind::kSbt0 : InputKind::kSbt1;
  if (b.size() >= 2 && b[0] == '\x80' && b[1] >= 2 && b[1] <= 5) return InputKind::kPickle;
  if (b.starts_with("SQLite f")) return InputKind::kSqlite;  // "SQLite format 3", of which 8 bytes are looked at
  if (b.starts_with("{\"header")) return InputKind::kInspector;
  return InputKind::kText;
}

std::unique_ptr<ByteSource> fileSource(File file) { return std::make_unique<FileSource>(std::move(file)); }

std::unique_ptr<ByteSource> memorySource(std::string_view bytes, size_t piece) {
  return std::make_unique<MemorySource>(bytes, piece);
}

std::unique_ptr<ByteSource> readAhead(std::unique_ptr<ByteSource> source) {
  return std::make_unique<ReadAhead>(std::move(source));
}

}  // namespace tracesmith::trace
