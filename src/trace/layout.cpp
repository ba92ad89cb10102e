#include "trace/layout.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>

namespace tracesmith::trace {

DiskType diskType(Kind kind) {
  switch (kind) {
    case Kind::Real:
      return DiskType::kReal;
    case Kind::Str:
      return DiskType::kString;
    case Kind::Type:
      return DiskType::kEnum;
    case Kind::Text:
      return DiskType::kText;
    case Kind::Launch:
      return DiskType::kLaunch;
    case Kind::Int:
    case Kind::Int32:
    case Kind::Sum:
      return DiskType::kInt;
  }
  return DiskType::kInt;
}

uint64_t hash64(const void* data, size_t size) { return XXH3_64bits(data, size); }

uint64_t blockChecksum(const void* block, uint32_t directory_size) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, block, offsetof(BlockHeader, checksum));
  XXH3_64bits_update(&state, static_cast<const char*>(block) + sizeof(BlockHeader), directory_size);
  return XXH3_64bits_digest(&state);
}

}  // namespace tracesmith::trace
