#include "query/column_loops.hpp"

#include <algorithm>
#include <cstring>

namespace tracesmith::query {
namespace {

template <typename T>
void gatherAny(const T* values, const uint32_t* rows, size_t n, T* out) {
  for (size_t i = 0; i < n; ++i) out[i] = values[rows[i]];
}

}  // namespace

void packBits(const uint8_t* bytes, size_t n, uint64_t* bits) {
  std::fill(bits, bits + (n + 63) / 64, 0);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, bytes + i, 8);
    // The product moves the eight bytes side by side into the top byte.
    bits[i / 64] |= (eight * 0x0102040810204080ull >> 56) << (i % 64);
  }
  for (; i < n; ++i) bits[i / 64] |= static_cast<uint64_t>(bytes[i]) << (i % 64);
}

uint8_t highestByte(const uint8_t* bytes, size_t n) {
  uint8_t high = 0;
  for (size_t i = 0; i < n; ++i) high = std::max(high, bytes[i]);
  return high;
}

void addColumns(const int64_t* a, const int64_t* b, size_t n, int64_t* out) {
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(a[i]) + static_cast<uint64_t>(b[i]));
}

void gather(const uint8_t* values, const uint32_t* rows, size_t n, uint8_t* out) { gatherAny(values, rows, n, out); }
void gather(const int32_t* values, const uint32_t* rows, size_t n, int32_t* out) { gatherAny(values, rows, n, out); }
void gather(const uint32_t* values, const uint32_t* rows, size_t n, uint32_t* out) { gatherAny(values, rows, n, out); }
void gather(const int64_t* values, const uint32_t* rows, size_t n, int64_t* out) { gatherAny(values, rows, n, out); }
void gather(const double* values, const uint32_t* rows, size_t n, double* out) { gatherAny(values, rows, n, out); }

void gatherBits(const uint64_t* bits, const uint32_t* rows, size_t n, uint64_t* out) {
  std::fill(out, out + (n + 63) / 64, 0);
  for (size_t i = 0; i < n; ++i) out[i / 64] |= (bits[rows[i] / 64] >> (rows[i] % 64) & 1) << (i % 64);
}

}  // namespace tracesmith::query
