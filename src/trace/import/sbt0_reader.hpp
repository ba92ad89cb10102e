// Decodes SBT v0.1, the format before this one: little-endian, packed, varints. Bytes come from anywhere; every count
// is checked against what is left of the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace tracesmith::trace::sbt0 {

struct Header {
  static constexpr uint64_t kSize = 72;
  uint32_t flags = 0, header_size = 0;
  uint64_t metadata_off = 0, strings_off = 0, devices_off = 0, events_off = 0, event_count = 0;
  uint8_t compression = 0;
};

struct Metadata {
  std::string app, command, host;
  uint64_t start = 0, end = 0, pid = 0;
};

struct Device {
  uint64_t id, cc_major, cc_minor, memory, memory_clock_khz, bus_bits, sms, max_threads, clock_khz, warp;
  std::string name, vendor;
};

enum Flags : uint8_t { kDuration = 1, kKernel = 2, kMemory = 4, kStack = 8, kAllFlags = 15 };

struct Frame {
  uint64_t address, function, file, line;
};

struct Event {
  uint8_t type, flags;
  uint64_t ts, duration, device, stream, correlation, name;
  uint64_t grid[3], block[3], shared, registers;
  uint64_t source, destination, size;
  uint64_t tid;
  std::vector<Frame> frames;
};

enum Tag : uint8_t { kMetadataTag = 1, kStringsTag = 2, kDevicesTag = 3, kEventsTag = 4, kEndTag = 255 };

/// Name of an event type, "Custom" and so on; nullptr for a number that has none.
const char* typeName(uint8_t type);

/// Reads a file from any offset through a small buffer. A read beyond the end, or of an invalid number, sets
/// failed().
class Cursor {
 public:
  Cursor(const File& file, uint64_t size) : file_(file), size_(size) {}
  void seek(uint64_t offset) {
    at_ = offset;
    failed_ = false;
  }
  uint64_t offset() const { return at_; }
  uint64_t left() const { return size_ - std::min(at_, size_); }
  bool failed() const { return failed_; }

  uint8_t byte();
  uint64_t fixed(int bytes);
  uint64_t varint();
  /// Longer texts are cut to `keep` bytes.
  std::string text(size_t keep);
  void skip(uint64_t bytes);

 private:
  const File& file_;
  uint64_t size_, at_ = 0, base_ = 0;
  std::vector<char> buffer_;
  bool failed_ = false;
};

/// False: the bytes are not that, or end before its end.
bool readHeader(Cursor& c, Header& header);
bool readMetadata(Cursor& c, Metadata& metadata);
bool readDevices(Cursor& c, std::vector<Device>& devices);
/// `ts` is the time of the event before.
bool readEvent(Cursor& c, uint64_t ts, Event& event);

/// Strings by index. Bounded; those beyond the limit are not known.
class StringList {
 public:
  bool read(Cursor& c);
  bool has(uint64_t index) const { return index < ends_.size(); }
  std::string_view at(uint64_t index) const {
    size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  size_t size() const { return ends_.size(); }
  uint64_t dropped() const { return dropped_; }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
  uint64_t dropped_ = 0;
};

}  // namespace tracesmith::trace::sbt0
