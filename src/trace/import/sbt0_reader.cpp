#include "trace/import/sbt0_reader.hpp"

#include <algorithm>
#include <iterator>

#include "trace/import/utf8.hpp"

namespace tracesmith::trace::sbt0 {
namespace {

constexpr size_t kBufferBytes = 1 << 18;
constexpr size_t kMaxName = 1 << 16;
constexpr size_t kMaxStringBytes = 48u << 20;
constexpr size_t kMaxStrings = 4u << 20;
constexpr uint64_t kMaxDevices = 1024;
constexpr uint64_t kMaxFrames = 4096;

}  // namespace

const char* typeName(uint8_t type) {
  static constexpr const char* kNames[] = {
      "Unknown",       "KernelLaunch",  "KernelComplete", "MemcpyH2D",   "MemcpyD2H", "MemcpyD2D",
      "MemsetDevice",  "StreamSync",    "DeviceSync",     "EventRecord", "EventSync", "StreamCreate",
      "StreamDestroy", "ContextCreate", "ContextDestroy", "MemAlloc",    "MemFree",   "Marker",
      "RangeStart",    "RangeEnd",      "NCCLStart",      "NCCLComplete"};
  if (type < std::size(kNames)) return kNames[type];
  return type == 255 ? "Custom" : nullptr;
}

uint8_t Cursor::byte() {
  if (failed_ || at_ >= size_) {
    failed_ = true;
    return 0;
  }
  if (at_ < base_ || at_ - base_ >= buffer_.size()) {
    base_ = at_;
    buffer_.resize(kBufferBytes);
    size_t got = 0;
    if (!file_.readAt(at_, buffer_.data(), buffer_.size(), got)) got = 0;
    buffer_.resize(got);
    if (got == 0) {
      failed_ = true;
      return 0;
    }
  }
  return static_cast<uint8_t>(buffer_[at_++ - base_]);
}

uint64_t Cursor::fixed(int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i) v |= static_cast<uint64_t>(byte()) << (8 * i);
  return v;
}

uint64_t Cursor::varint() {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t b = byte();
    v |= static_cast<uint64_t>(b & 127) << shift;
    if (!(b & 128)) {
      if (shift == 63 && b > 1) failed_ = true;
      return v;
    }
  }
  failed_ = true;
  return 0;
}

void Cursor::skip(uint64_t bytes) {
  if (failed_ || bytes > left())
    failed_ = true;
  else
    at_ += bytes;
}

std::string Cursor::text(size_t keep) {
  uint64_t length = varint();
  std::string out;
  if (failed_ || length > left()) {
    failed_ = true;
    return out;
  }
  auto kept = static_cast<size_t>(std::min<uint64_t>(length, keep));
  out.resize(kept);
  for (char& c : out) c = static_cast<char>(byte());
  skip(length - kept);
  repairUtf8(out.data(), out.data() + out.size());
  return out;
}

bool readHeader(Cursor& c, Header& h) {
  if (c.fixed(4) != 0x00544253) return false;  // "SBT\0"
  if (c.fixed(2) != 0) return false;
  c.fixed(2);
  h.flags = static_cast<uint32_t>(c.fixed(4));
  h.header_size = static_cast<uint32_t>(c.fixed(4));
  h.metadata_off = c.fixed(8);
  h.strings_off = c.fixed(8);
  h.devices_off = c.fixed(8);
  h.events_off = c.fixed(8);
  c.fixed(8);  // call stacks: always 0, they stand with their events
  h.event_count = c.fixed(8);
  h.compression = c.byte();
  c.skip(7);
  return !c.failed();
}

bool readMetadata(Cursor& c, Metadata& m) {
  m.app = c.text(kMaxName);
  m.command = c.text(kMaxName);
  m.start = c.varint();
  m.end = c.varint();
  m.host = c.text(kMaxName);
  m.pid = c.varint();
  return !c.failed();
}

bool readDevices(Cursor& c, std::vector<Device>& devices) {
  uint64_t n = c.varint();
  if (c.failed() || n > kMaxDevices) return false;
  for (uint64_t i = 0; i < n; ++i) {
    Device d{};
    d.id = c.varint();
    d.name = c.text(kMaxName);
    d.vendor = c.text(kMaxName);
    for (uint64_t* field : {&d.cc_major, &d.cc_minor, &d.memory, &d.memory_clock_khz, &d.bus_bits, &d.sms,
                            &d.max_threads, &d.clock_khz, &d.warp})
      *field = c.varint();
    if (c.failed()) return false;
    devices.push_back(std::move(d));
  }
  return true;
}

bool readEvent(Cursor& c, uint64_t ts, Event& e) {
  e.type = c.byte();
  e.flags = c.byte();
  if (c.failed() || (e.flags & ~kAllFlags) || !typeName(e.type)) return false;
  e.ts = ts + c.varint();
  if (e.flags & kDuration) e.duration = c.varint();
  e.device = c.varint();
  e.stream = c.varint();
  e.correlation = c.varint();
  e.name = c.varint();
  if (e.flags & kKernel) {
    for (uint64_t& v : e.grid) v = c.varint();
    for (uint64_t& v : e.block) v = c.varint();
    e.shared = c.varint();
    e.registers = c.varint();
  }
  if (e.flags & kMemory) {
    e.source = c.varint();
    e.destination = c.varint();
    e.size = c.varint();
  }
  e.frames.clear();
  if (e.flags & kStack) {
    e.tid = c.varint();
    uint64_t n = c.varint();
    if (c.failed() || n > kMaxFrames) return false;
    for (uint64_t i = 0; i < n && !c.failed(); ++i) {
      Frame f;
      for (uint64_t* field : {&f.address, &f.function, &f.file, &f.line}) *field = c.varint();
      e.frames.push_back(f);
    }
  }
  return !c.failed();
}

bool StringList::read(Cursor& c) {
  uint64_t n = c.varint();
  if (c.failed() || n > c.left()) return false;  // a string takes at least its length byte
  for (uint64_t i = 0; i < n; ++i) {
    std::string s = c.text(kMaxName);
    if (c.failed()) return false;
    if (ends_.size() < kMaxStrings && bytes_.size() + s.size() <= kMaxStringBytes) {
      bytes_ += s;
      ends_.push_back(static_cast<uint32_t>(bytes_.size()));
    } else {
      ++dropped_;
    }
  }
  return true;
}

}  // namespace tracesmith::trace::sbt0
