// Column encodings of SBT v1 (docs/format.md): planes, heap, validity. Pure functions over memory.
// Decoders take bytes from anywhere: they check every count and return false rather than read or write out of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tracesmith::trace {

constexpr uint32_t kMaxRows = 1u << 20;
constexpr uint32_t kMaxHeapBytes = 16u << 20;

/// Scratch memory and compression state of one encoding thread.
class Encoder {
 public:
  explicit Encoder(int level = 3);
  ~Encoder();
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  /// Appends `planes` of the codes to out.
  void planes(std::span<const uint64_t> codes, std::string& out);
  /// Appends `planes` of codes that are single bytes already.
  void bytePlane(std::span<const uint8_t> codes, std::string& out);
  /// Appends a heap: lengths, then the texts one after another.
  void heap(std::span<const uint64_t> lengths, std::string_view bytes, std::string& out);

 private:
  void plane(const uint8_t* bytes, size_t n, std::string& out);
  /// Appends mode, size and bytes of `bytes` as zstd, or as they are where that does not pay.
  void frame(const uint8_t* bytes, size_t n, std::string& out);

  ZSTD_CCtx_s* zstd_;
  std::vector<uint8_t> bytes_, compressed_;
};

/// Scratch memory of one decoding thread.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Reads `planes` of n codes from the front of `in` and drops it from `in`; out gets each code + base (truncated to
  /// T: uint8_t, uint16_t, uint32_t or uint64_t).
  template <typename T>
  bool planes(std::string_view& in, size_t n, T* out, T base = 0);
  /// The same for differences of neighbours: out[i] becomes base + the sum of differences 0…i.
  bool deltas(std::string_view& in, size_t n, int64_t* out, int64_t base, bool zigzag);
  bool heap(std::string_view& in, size_t n, std::vector<uint32_t>& lengths, std::string& bytes);

 private:
  /// Decodes like planes() and calls finish(first, count) for every stretch of codes, while it is in the cache.
  template <typename T, typename Finish>
  bool merge(std::string_view& in, size_t n, T* out, T base, Finish finish);

  ZSTD_DCtx_s* zstd_;
  std::vector<uint8_t> scratch_;
};

// Loops of the encoder over whole columns.
void minMax(std::span<const uint64_t> values, int64_t& low, int64_t& high);  ///< as signed numbers; not for none
void subtract(std::span<const uint64_t> values, uint64_t base, uint64_t* out);
/// Differences of neighbours: values.size() − 1 of them. True if one is negative.
bool differences(std::span<const uint64_t> values, uint64_t* out);
void zigzag(std::span<uint64_t> codes);
/// counts[c] += rows in which column c is `null`; rows of `columns` slots each.
void countNulls(const int64_t* rows, size_t count, size_t columns, int64_t null, uint32_t* counts);

/// The highest of n ids; 0 of none.
uint32_t highest(const uint32_t* ids, size_t n);

/// Codes of neighbours' differences to values, in place: codes[i] becomes base + the sum of differences 0…i.
void undelta(int64_t* codes, size_t n, int64_t base, bool zigzag);

}  // namespace tracesmith::trace
