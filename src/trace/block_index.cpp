#include "trace/block_index.hpp"

#include <algorithm>
#include <cstring>

#include "trace/block_bytes.hpp"

namespace tracesmith::trace {
namespace {

constexpr size_t kPeekBytes = 4096;  // a block header and its directory, usually

bool allZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

}  // namespace

Status BlockIndex::readHeader(const File& file) {
  const std::string& path = file.path();
  size_t got;
  TS_TRY(file.readAt(0, &header, sizeof header, got));
  if (got == 0) return Status::corrupt(path + " is empty");
  if (got < 8 || std::memcmp(header.magic, kFileMagic, 4) != 0)
    return Status::corrupt(path + " is not an SBT trace (offset 0: wrong magic)");
  if (header.major == 0)
    return Status::unsupported(path + " is an SBT v0.1 trace: convert it with `tracesmith import " + path +
                               " -o NEW.sbt`");
  if (header.major > kMajorVersion)
    return Status::unsupported(path + " was written by a newer TraceSmith (format " + std::to_string(header.major) +
                               "." + std::to_string(header.minor) + "; this one reads up to 1.x)");
  if (got < sizeof header)
    return Status::corrupt(path + " ends inside its header (offset " + std::to_string(got) + ")");
  if (header.checksum != hash64(&header, offsetof(FileHeader, checksum)) || header.header_size < sizeof header ||
      header.header_size > 1u << 20)
    return Status::corrupt(path + " has a damaged header (offset 0: checksum)");
  next_offset = (header.header_size + 7) / 8 * 8;
  return {};
}

void BlockIndex::add(const BlockHeader& h, uint64_t offset, const char* directory) {
  Block block;
  block.offset = offset;
  block.size = h.block_size;
  block.rows = h.rows;
  block.stream = h.stream;
  auto& entries = directories.emplace_back(h.columns);
  if (h.columns > 0) std::memcpy(entries.data(), directory, h.directory_size);
  block.columns = entries;
  if (h.table == kStringsTable) {
    strings.push_back(block);
  } else if (h.table == kSchemaTable) {
    schemas.push_back(block);
  } else if (h.table == kEndTable) {
    closed = true;
  } else if ((block.table = findTable(h.table)) != nullptr) {
    blocks.push_back(block);
  } else {
    ++unknown_blocks;
  }
}

Status BlockIndex::walk(const File& file) {
  Result<uint64_t> size = file.size();
  if (!size) return size.status();
  file_size = *size;
  unfinished_bytes = 0;
  std::string buffer;
  while (next_offset < file_size) {
    const uint64_t offset = next_offset;
    const uint64_t left = file_size - offset;
    buffer.resize(kPeekBytes);
    size_t got;
    TS_TRY(file.readAt(offset, buffer.data(), buffer.size(), got));
    buffer.resize(got);
    if (got < sizeof(BlockHeader)) {
      unfinished_bytes = left;
      return {};
    }
    BlockHeader h;
    std::memcpy(&h, buffer.data(), sizeof h);
    const char* problem = headerProblem(h);
    if (!problem && h.block_size > left) {
      unfinished_bytes = left;  // being written, or cut
      return {};
    }
    if (!problem) {
      size_t head = sizeof h + h.directory_size;
      if (head > buffer.size()) {
        buffer.resize(head);
        TS_TRY(file.readAt(offset, buffer.data(), head, got));
        if (got < head) return Status::io(file.path() + " shrank while it was read");
      }
      std::vector<ColumnEntry> entries(h.columns);
      if (h.columns > 0) std::memcpy(entries.data(), buffer.data() + sizeof h, h.directory_size);
      if (h.checksum != blockChecksum(buffer.data(), h.directory_size))
        problem = "block header checksum does not match";
      else if (!directoryOk(h, entries.data()))
        problem = "invalid column directory";
    }
    if (!problem) {
      if (h.sequence > next_sequence)
        damage.push_back(
            {offset, 0, std::to_string(h.sequence - next_sequence) + " blocks are missing before this one"});
      next_sequence = h.sequence + 1;
      add(h, offset, buffer.data() + sizeof h);
      next_offset = offset + h.block_size;
      continue;
    }
    if (allZero(buffer)) {  // after a power failure there may be zeros instead of a block
      uint64_t found;
      TS_TRY(findNext(file, offset + 8, found));
      if (found == file_size) {
        unfinished_bytes = left;
        return {};
      }
    }
    uint64_t found;
    TS_TRY(findNext(file, offset + 8, found));
    damage.push_back({offset, found - offset, problem});
    next_offset = found;
    if (found < file_size) {
      // The gap is already reported; do not report the missing numbers as well.
      size_t have;
      BlockHeader next;
      TS_TRY(file.readAt(found, &next, sizeof next, have));
      if (have == sizeof next) next_sequence = std::max(next_sequence, next.sequence);
    }
  }
  return {};
}

Status BlockIndex::findNext(const File& file, uint64_t from, uint64_t& found) const {
  std::string buffer(1 << 20, '\0');
  for (uint64_t at = from; at < file_size;) {
    size_t got;
    TS_TRY(file.readAt(at, buffer.data(), buffer.size(), got));
    if (got < sizeof kBlockMagic) break;
    for (size_t i = 0; i + sizeof kBlockMagic <= got; i += 8) {
      if (std::memcmp(buffer.data() + i, kBlockMagic, sizeof kBlockMagic) != 0) continue;
      found = at + i;
      return {};
    }
    at += got / 8 * 8;
  }
  found = file_size;
  return {};
}

}  // namespace tracesmith::trace
