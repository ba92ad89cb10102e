// Protocol buffers, the writing half: fields are appended to a string.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.hpp"

namespace tracesmith::trace {

class ProtobufWriter {
 public:
  /// uint64, uint32, bool and enum fields; int64 and int32 too, as their two's complement.
  void integer(int field, int64_t v) {
    tag(field, 0);
    varint(static_cast<uint64_t>(v));
  }
  void fixed64(int field, uint64_t v) {
    tag(field, 1);
    for (int i = 0; i < 8; ++i) out_ += static_cast<char>(v >> (8 * i));
  }
  void real(int field, double v) { fixed64(field, std::bit_cast<uint64_t>(v)); }
  void bytes(int field, std::string_view v) {
    tag(field, 2);
    varint(v.size());
    out_ += v;
  }
  /// A string field: made valid UTF-8 first, as the format demands.
  void text(int field, std::string_view v) {
    size_t message = begin(field);
    appendUtf8(out_, v);
    end(message);
  }

  /// Opens a nested message; end() takes what begin() gave, innermost first.
  size_t begin(int field) {
    tag(field, 2);
    out_ += '\0';  // room for the length, which most of the time needs one byte
    return out_.size();
  }
  void end(size_t message);

  const std::string& data() const { return out_; }
  bool empty() const { return out_.empty(); }
  void clear() { out_.clear(); }

 private:
  void tag(int field, int wire) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire)); }
  void varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) out_ += static_cast<char>(v | 0x80);
    out_ += static_cast<char>(v);
  }
  std::string out_;
};

}  // namespace tracesmith::trace
