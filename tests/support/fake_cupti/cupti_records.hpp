// CUPTI's records: how long they are in each version, and how they are made byte by byte.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tracesmith::fake {

constexpr int kOk = 0, kInvalid = 1, kNotSupported = 27, kMultipleSubscribers = 39, kNoMoreRecords = 12;
enum : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kKernel = 10,
  kOverhead = 17,
  kPeer = 22,
  kSync = 38,
  kGraph = 51
};

inline size_t number(const char* name, size_t fallback) {
  const char* v = std::getenv(name);
  return v && *v ? std::strtoul(v, nullptr, 10) : fallback;
}

inline uint32_t version() {
  static const auto v = static_cast<uint32_t>(number("FAKE_CUPTI_VERSION", 130001));
  return v;
}

/// Length of a record in this version; each grew at its end.
inline size_t lengthOf(uint32_t kind) {
  const uint32_t v = version();
  switch (kind) {
    case kKernel:
      return v < 13 ? 144 : v < 15 ? 160 : v < 17 ? 168 : v < 18 ? 176 : v < 19 ? 200 : v < 130000 ? 208 : 216;
    case kMemcpy:
      return v < 13 ? 64 : v < 14 ? 72 : v < 17 ? 80 : v < 26 ? 88 : 96;
    case kPeer:
      return v < 13 ? 72 : v < 14 ? 80 : v < 17 ? 88 : 96;
    case kMemset:
      return v < 13 ? 64 : v < 14 ? 72 : v < 17 ? 80 : 88;
    case kRuntime:
    case kDriver:
      return 40;
    case kSync:
      return v < 26 ? 40 : 56;
    case kOverhead:
      return v < 20 ? 40 : v < 22 ? 48 : 56;
    case kGraph:
      return v < 22 ? 48 : 56;
    default:
      return 64;
  }
}

/// A record being made. Bytes nobody sets are 0xa5: whoever reads past the end of one finds nonsense.
struct Bytes {
  alignas(8) uint8_t data[256];
  explicit Bytes(uint32_t kind) {
    std::memset(data, 0, lengthOf(kind));
    std::memset(data + lengthOf(kind), 0xa5, sizeof data - lengthOf(kind));
    set(0, kind);
  }
  template <typename T>
  Bytes& set(size_t offset, T value) {
    std::memcpy(data + offset, &value, sizeof value);
    return *this;
  }
};

}  // namespace tracesmith::fake
