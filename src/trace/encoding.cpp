#include "trace/encoding.hpp"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

// The byte-plane loops run about twice as fast with AVX2; the default keeps every x86-64 machine working.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define TS_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define TS_CLONES
#endif

namespace tracesmith::trace {
namespace {

// Codes assembled at a time: 8 KB of results and as many planes stay in the first-level cache.
constexpr size_t kStretch = 1024;

enum PlaneMode : uint8_t { kRaw = 0, kZstd = 1, kRepeat = 2 };

template <typename T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

template <typename T>
bool take(std::string_view& in, T& v) {
  if (in.size() < sizeof v) return false;
  std::memcpy(&v, in.data(), sizeof v);
  in.remove_prefix(sizeof v);
  return true;
}

TS_CLONES void splitPlane(const uint64_t* codes, size_t n, unsigned shift, uint8_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(codes[i] >> shift);
}

/// Whether the bytes look like noise: an ideal order-0 coder would need more than 7.5 bits for each. Compressing such a
/// plane costs more time, here and at every read, than its few percent are worth. Looks at a quarter of a long plane.
bool looksRandom(const uint8_t* bytes, size_t n) {
  uint32_t count[4][256] = {};
  const size_t step = n >= 16384 ? 256 : 64;  // 64 of every 256 bytes
  size_t sampled = 0;
  for (size_t at = 0; at + 64 <= n; at += step, sampled += 64)
    for (size_t i = at; i < at + 64; i += 4) {
      ++count[0][bytes[i]];
      ++count[1][bytes[i + 1]];
      ++count[2][bytes[i + 2]];
      ++count[3][bytes[i + 3]];
    }
  if (sampled < 1024) return false;
  float sum = 0;
  for (int v = 0; v < 256; ++v) {
    auto c = static_cast<float>(count[0][v] + count[1][v] + count[2][v] + count[3][v]);
    if (c > 0) sum += c * std::log2(c);
  }
  const auto total = static_cast<float>(sampled);
  // A sample of a few thousand bytes underestimates the entropy by about 256 / (2 ln 2 · n) bits.
  return std::log2(total) - sum / total + 185 / total > 7.5f;
}

// gcc does not clone templates, so the loops exist once per output width.
#define TS_MERGE(T)                                                                                              \
  TS_CLONES void merge1(const uint8_t* a, unsigned sa, T add, size_t n, T* out) {                                \
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<T>(add + static_cast<T>(static_cast<T>(a[i]) << sa));    \
  }                                                                                                              \
  TS_CLONES void merge2(const uint8_t* a, unsigned sa, const uint8_t* b, unsigned sb, T add, size_t n, T* out) { \
    for (size_t i = 0; i < n; ++i)                                                                               \
      out[i] = static_cast<T>(add + static_cast<T>(static_cast<T>(a[i]) << sa) +                                 \
                              static_cast<T>(static_cast<T>(b[i]) << sb));                                       \
  }
#define TS_MERGE_MORE(T)                                                                                         \
  TS_CLONES void mergeMore(const uint8_t* a, unsigned sa, size_t n, T* out) {                                    \
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<T>(out[i] + static_cast<T>(static_cast<T>(a[i]) << sa)); \
  }
TS_MERGE(uint8_t)
TS_MERGE(uint16_t)
TS_MERGE(uint32_t)
TS_MERGE_MORE(uint8_t)
TS_MERGE_MORE(uint16_t)
TS_MERGE_MORE(uint32_t)
TS_MERGE_MORE(uint64_t)
#undef TS_MERGE
#undef TS_MERGE_MORE

TS_CLONES void widen(const uint32_t* low, uint64_t add, size_t n, uint64_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = add + low[i];
}

/// Adds up to eight planes of n ≤ kStretch codes; planes come in ascending order of their shifts.
template <typename T>
void mergeStretch(const uint8_t* const* part, const unsigned* shift, unsigned parts, size_t at, T add, size_t n,
                  T* out) {
  if (parts == 0) {
    std::fill(out, out + n, add);
  } else if (parts == 1) {
    merge1(part[0] + at, shift[0], add, n, out);
  } else {
    merge2(part[0] + at, shift[0], part[1] + at, shift[1], add, n, out);
    for (unsigned k = 2; k < parts; ++k) mergeMore(part[k] + at, shift[k], n, out);
  }
}

/// Of 64-bit codes the lower half is put together in 32 bits: twice as many fit a register.
template <>
void mergeStretch(const uint8_t* const* part, const unsigned* shift, unsigned parts, size_t at, uint64_t add, size_t n,
                  uint64_t* out) {
  unsigned low = 0;
  while (low < parts && shift[low] < 32) ++low;
  uint32_t half[kStretch];
  mergeStretch<uint32_t>(part, shift, low, at, 0, n, half);
  widen(half, add, n, out);
  for (unsigned k = low; k < parts; ++k) mergeMore(part[k] + at, shift[k], n, out);
}

TS_CLONES uint64_t orAll(const uint64_t* v, size_t n) {
  uint64_t all = 0;
  for (size_t i = 0; i < n; ++i) all |= v[i];
  return all;
}

TS_CLONES void minMaxLoop(std::span<const uint64_t> values, int64_t& low, int64_t& high) {
  int64_t a = static_cast<int64_t>(values[0]), b = a;
  for (uint64_t v : values) {
    const auto x = static_cast<int64_t>(v);
    a = x < a ? x : a;
    b = x > b ? x : b;
  }
  low = a;
  high = b;
}

TS_CLONES void subtractLoop(std::span<const uint64_t> values, uint64_t base, uint64_t* out) {
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i] - base;
}

TS_CLONES bool differencesLoop(std::span<const uint64_t> values, uint64_t* out) {
  uint64_t signs = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    out[i - 1] = values[i] - values[i - 1];
    signs |= out[i - 1];
  }
  return signs >> 63;
}

TS_CLONES void zigzagLoop(std::span<uint64_t> codes) {
  for (uint64_t& c : codes) c = (c << 1) ^ (0 - (c >> 63));
}

TS_CLONES void countNullsLoop(const int64_t* rows, size_t count, size_t columns, int64_t null, uint32_t* counts) {
  for (size_t r = 0; r < count; ++r, rows += columns)
    for (size_t c = 0; c < columns; ++c) counts[c] += rows[c] == null;
}

TS_CLONES uint32_t highestLoop(const uint32_t* ids, size_t n) {
  uint32_t high = 0;
  for (size_t i = 0; i < n; ++i) high = ids[i] > high ? ids[i] : high;
  return high;
}

}  // namespace

// Loops for several processors are dispatched by symbols that the compiler always exports; wrappers in this file keep
// them out of the interface.
void minMax(std::span<const uint64_t> values, int64_t& low, int64_t& high) { minMaxLoop(values, low, high); }
void subtract(std::span<const uint64_t> values, uint64_t base, uint64_t* out) { subtractLoop(values, base, out); }
bool differences(std::span<const uint64_t> values, uint64_t* out) { return differencesLoop(values, out); }
void zigzag(std::span<uint64_t> codes) { zigzagLoop(codes); }
void countNulls(const int64_t* rows, size_t count, size_t columns, int64_t null, uint32_t* counts) {
  countNullsLoop(rows, count, columns, null, counts);
}
uint32_t highest(const uint32_t* ids, size_t n) { return highestLoop(ids, n); }

Encoder::Encoder(int level) : zstd_(ZSTD_createCCtx()) {
  ZSTD_CCtx_setParameter(zstd_, ZSTD_c_compressionLevel, level);
}

Encoder::~Encoder() { ZSTD_freeCCtx(zstd_); }

void Encoder::frame(const uint8_t* bytes, size_t n, std::string& out) {
  if (n >= 32 && !looksRandom(bytes, n)) {
    compressed_.resize(ZSTD_compressBound(n));
    size_t size = ZSTD_compress2(zstd_, compressed_.data(), compressed_.size(), bytes, n);
    if (!ZSTD_isError(size) && size < n - n / 32) {
      put<uint8_t>(out, kZstd);
      put<uint32_t>(out, static_cast<uint32_t>(size));
      out.append(reinterpret_cast<const char*>(compressed_.data()), size);
      return;
    }
  }
  put<uint8_t>(out, kRaw);
  put<uint32_t>(out, static_cast<uint32_t>(n));
  out.append(reinterpret_cast<const char*>(bytes), n);
}

void Encoder::plane(const uint8_t* bytes, size_t n, std::string& out) {
  if (n > 0 && std::memcmp(bytes, bytes + 1, n - 1) == 0) {
    put<uint8_t>(out, kRepeat);
    put<uint32_t>(out, 1);
    out.push_back(static_cast<char>(bytes[0]));
    return;
  }
  frame(bytes, n, out);
}

void Encoder::planes(std::span<const uint64_t> codes, std::string& out) {
  const uint64_t all = orAll(codes.data(), codes.size());
  unsigned count = (static_cast<unsigned>(std::bit_width(all)) + 7) / 8;
  put<uint8_t>(out, static_cast<uint8_t>(count));
  bytes_.resize(codes.size());
  for (unsigned k = 0; k < count; ++k) {
    splitPlane(codes.data(), codes.size(), 8 * k, bytes_.data());
    plane(bytes_.data(), bytes_.size(), out);
  }
}

void Encoder::bytePlane(std::span<const uint8_t> codes, std::string& out) {
  put<uint8_t>(out, 1);
  plane(codes.data(), codes.size(), out);
}

void Encoder::heap(std::span<const uint64_t> lengths, std::string_view bytes, std::string& out) {
  planes(lengths, out);
  put<uint32_t>(out, static_cast<uint32_t>(bytes.size()));
  frame(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), out);
}

Decoder::Decoder() : zstd_(ZSTD_createDCtx()) {}

Decoder::~Decoder() { ZSTD_freeDCtx(zstd_); }

template <typename T, typename Finish>
bool Decoder::merge(std::string_view& in, size_t n, T* out, T base, Finish finish) {
  uint8_t count;
  if (n > kMaxRows || !take(in, count) || count > 8) return false;
  if (scratch_.size() < count * n) scratch_.resize(count * n);  // never shrunk: growing again would fill it with zeros
  const uint8_t* part[8];
  unsigned shift[8];
  unsigned parts = 0;
  T add = base;
  for (unsigned k = 0; k < count; ++k) {
    uint8_t mode;
    uint32_t size;
    if (!take(in, mode) || !take(in, size) || size > in.size()) return false;
    auto* bytes = reinterpret_cast<const uint8_t*>(in.data());
    in.remove_prefix(size);
    if (8 * k >= 8 * sizeof(T)) continue;
    if (mode == kRepeat) {
      if (size != 1) return false;
      add = static_cast<T>(add + static_cast<T>(static_cast<T>(bytes[0]) << (8 * k)));
      continue;
    }
    if (mode == kZstd) {
      uint8_t* target = scratch_.data() + k * n;
      size_t got = ZSTD_decompressDCtx(zstd_, target, n, bytes, size);
      if (ZSTD_isError(got) || got != n) return false;
      bytes = target;
    } else if (mode != kRaw || size != n) {
      return false;
    }
    part[parts] = bytes;
    shift[parts++] = 8 * k;
  }
  for (size_t at = 0; at < n; at += kStretch) {
    const size_t some = std::min(kStretch, n - at);
    mergeStretch(part, shift, parts, at, add, some, out + at);
    finish(out + at, some);
  }
  return true;
}

template <typename T>
bool Decoder::planes(std::string_view& in, size_t n, T* out, T base) {
  return merge(in, n, out, base, [](T*, size_t) {});
}

bool Decoder::deltas(std::string_view& in, size_t n, int64_t* out, int64_t base, bool zigzag) {
  return merge<uint64_t>(in, n, reinterpret_cast<uint64_t*>(out), 0, [&](uint64_t* first, size_t count) {
    undelta(reinterpret_cast<int64_t*>(first), count, base, zigzag);
    base = static_cast<int64_t>(first[count - 1]);
  });
}

template bool Decoder::planes<uint8_t>(std::string_view&, size_t, uint8_t*, uint8_t);
template bool Decoder::planes<uint16_t>(std::string_view&, size_t, uint16_t*, uint16_t);
template bool Decoder::planes<uint32_t>(std::string_view&, size_t, uint32_t*, uint32_t);
template bool Decoder::planes<uint64_t>(std::string_view&, size_t, uint64_t*, uint64_t);

bool Decoder::heap(std::string_view& in, size_t n, std::vector<uint32_t>& lengths, std::string& bytes) {
  lengths.resize(n);
  if (!planes(in, n, lengths.data())) return false;
  uint32_t raw, size;
  uint8_t mode;
  if (!take(in, raw) || !take(in, mode) || !take(in, size) || size > in.size() || raw > kMaxHeapBytes) return false;
  uint64_t total = 0;
  for (uint32_t l : lengths) total += l;
  if (total != raw) return false;
  bytes.resize(raw);
  if (mode == kZstd) {
    size_t got = ZSTD_decompressDCtx(zstd_, bytes.data(), raw, in.data(), size);
    if (ZSTD_isError(got) || got != raw) return false;
  } else if (mode == kRaw && size == raw) {
    std::memcpy(bytes.data(), in.data(), raw);
  } else {
    return false;
  }
  in.remove_prefix(size);
  return true;
}

void undelta(int64_t* codes, size_t n, int64_t base, bool zigzag) {
  auto v = static_cast<uint64_t>(base);
  if (zigzag) {
    for (size_t i = 0; i < n; ++i) {
      auto c = static_cast<uint64_t>(codes[i]);
      v += (c >> 1) ^ (0 - (c & 1));
      codes[i] = static_cast<int64_t>(v);
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      v += static_cast<uint64_t>(codes[i]);
      codes[i] = static_cast<int64_t>(v);
    }
  }
}

}  // namespace tracesmith::trace
