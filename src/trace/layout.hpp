// Byte layout of SBT v1 (docs/format.md).
#pragma once

#include <cstdint>
#include <string>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

constexpr char kFileMagic[4] = {'S', 'B', 'T', '\0'};
constexpr uint8_t kBlockMagic[8] = {0x89, 'S', 'B', 'T', 'B', 'L', 'K', '\n'};
constexpr uint16_t kMajorVersion = 1;
constexpr uint32_t kMaxBlockBytes = 64u << 20;

// The file's own tables.
constexpr uint16_t kEndTable = 0;
constexpr uint16_t kSchemaTable = 1;
constexpr uint16_t kStringsTable = 2;

struct FileHeader {
  char magic[4];
  uint16_t major, minor;
  uint32_t header_size, flags;
  uint8_t trace_id[16];
  int64_t created_ns;
  uint8_t reserved[16];
  uint64_t checksum;
};
static_assert(sizeof(FileHeader) == 64);

struct BlockHeader {
  uint8_t magic[8];
  uint32_t block_size, directory_size;
  uint16_t table, columns;
  uint32_t rows;
  uint64_t sequence;
  uint32_t stream, flags;
  uint64_t reserved;
  uint64_t checksum;
};
static_assert(sizeof(BlockHeader) == 56);

enum class DiskType : uint8_t { kInt = 1, kReal = 2, kString = 3, kEnum = 4, kText = 5, kLaunch = 6 };
enum class Encoding : uint8_t { kConstant = 0, kPlanes = 1, kHeap = 2, kSum = 3 };
enum ColumnFlags : uint8_t { kDelta = 1, kZigzag = 2, kOwnValidity = 4, kSharedValidity = 8 };

/// One directory entry.
struct ColumnEntry {
  uint16_t column;
  DiskType type;
  Encoding encoding;
  uint8_t flags;
  uint8_t reserved;
  uint16_t validity_index;
  uint32_t offset, size;
  int64_t base, zone_low, zone_high;
  uint32_t values;
  uint32_t checksum;
};
static_assert(sizeof(ColumnEntry) == 48);

DiskType diskType(Kind kind);
uint64_t hash64(const void* data, size_t size);
/// Checksum of a block: its header up to the checksum, then the directory. `block` holds both.
uint64_t blockChecksum(const void* block, uint32_t directory_size);

}  // namespace tracesmith::trace
