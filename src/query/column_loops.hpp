// The plain loops over columns, apart so that they are compiled for speed and without DuckDB's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::query {

/// n bytes, each 0 or 1, to a bit each; `bits` has room for a whole number of 64-bit words.
void packBits(const uint8_t* bytes, size_t n, uint64_t* bits);
uint8_t highestByte(const uint8_t* bytes, size_t n);
/// out[i] = a[i] + b[i], modulo 2⁶⁴.
void addColumns(const int64_t* a, const int64_t* b, size_t n, int64_t* out);
/// out[i] = values[rows[i]]
void gather(const uint8_t* values, const uint32_t* rows, size_t n, uint8_t* out);
void gather(const int32_t* values, const uint32_t* rows, size_t n, int32_t* out);
void gather(const uint32_t* values, const uint32_t* rows, size_t n, uint32_t* out);
void gather(const int64_t* values, const uint32_t* rows, size_t n, int64_t* out);
void gather(const double* values, const uint32_t* rows, size_t n, double* out);
/// The same for bits.
void gatherBits(const uint64_t* bits, const uint32_t* rows, size_t n, uint64_t* out);

}  // namespace tracesmith::query
