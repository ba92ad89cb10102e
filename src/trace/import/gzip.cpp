// gzip: members one after another, as `cat a.gz b.gz` makes them.
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "trace/import/input.hpp"

namespace tracesmith::trace {
namespace {

class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> compressed, std::string path)
      : compressed_(std::move(compressed)), path_(std::move(path)), in_(1 << 18) {
    constexpr int kGzipOnly = 15 + 16;
    ready_ = ::inflateInit2(&z_, kGzipOnly) == Z_OK;
  }
  ~GzipSource() override {
    if (ready_) ::inflateEnd(&z_);
  }

  Status read(char* buffer, size_t size, size_t& got) override {
    got = 0;
    if (!ready_) return Status::exhausted(path_ + ": out of memory while decompressing it");
    while (got == 0 && !done_) {
      if (z_.avail_in == 0) TS_TRY(refill());
      if (between_) {
        TS_TRY(nextMember());
        continue;
      }
      if (z_.avail_in == 0)
        return Status::corrupt(path_ + ": truncated gzip: it ends at byte " + std::to_string(offset()) +
                               " inside the compressed data");
      z_.next_out = reinterpret_cast<Bytef*>(buffer);
      z_.avail_out = static_cast<uInt>(std::min<size_t>(size, 1u << 30));
      const uInt room = z_.avail_out;
      int rc = ::inflate(&z_, Z_NO_FLUSH);
      got = room - z_.avail_out;
      if (rc == Z_STREAM_END) {
        between_ = true;
      } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return Status::corrupt(path_ + ": corrupt gzip at byte " + std::to_string(offset()) + ": " +
                               (z_.msg ? z_.msg : "bad data"));
      }
    }
    return {};
  }

  uint64_t consumed() const override { return compressed_->consumed(); }

 private:
  /// Offset of the next byte inflate will look at.
  uint64_t offset() const { return taken_ - z_.avail_in; }

  Status refill() {
    size_t got;
    TS_TRY(compressed_->read(in_.data(), in_.size(), got));
    z_.next_in = reinterpret_cast<Bytef*>(in_.data());
    z_.avail_in = static_cast<uInt>(got);
    taken_ += got;
    return {};
  }

  /// After a member: another one, zero padding, or the end.
  Status nextMember() {
    while (z_.avail_in > 0 && *z_.next_in == 0) {
      ++z_.next_in;
      --z_.avail_in;
      padded_ = true;
    }
    if (z_.avail_in == 0) {
      TS_TRY(refill());
      done_ = z_.avail_in == 0;
      return {};
    }
    if (padded_ || *z_.next_in != 0x1f)
      return Status::corrupt(path_ + ": corrupt gzip at byte " + std::to_string(offset()) +
                             ": something that is not gzip follows the compressed data");
    ::inflateReset(&z_);
    between_ = false;
    return {};
  }

  std::unique_ptr<ByteSource> compressed_;
  std::string path_;
  std::vector<char> in_;
  z_stream z_{};
  uint64_t taken_ = 0;
  bool ready_ = false, between_ = false, padded_ = false, done_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> gzipSource(std::unique_ptr<ByteSource> compressed, std::string path) {
  return std::make_unique<GzipSource>(std::move(compressed), std::move(path));
}

}  // namespace tracesmith::trace
