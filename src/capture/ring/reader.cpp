#include "capture/ring/reader.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "capture/ring/spare.hpp"

namespace tracesmith::ring {

/// Every reader has a file open, and jobs may have more processes than the usual limit.
static bool raiseFileLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

constexpr uint64_t kChunk = 1u << 16;  // records that are copied at a time
constexpr uint64_t kGiveBack = 1024;   // after so many records their room is given back to the writer

Result<std::unique_ptr<RingReader>> RingReader::open(const std::string& path) {
  // Its user may hold a lease on it, or it may be a pipe: opening must not wait for anybody.
  auto attempt = [&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); };
  int fd = attempt();
  if (fd < 0 && errno == EMFILE && raiseFileLimit()) fd = attempt();
  if (fd < 0) return errnoStatus("open", path);
  struct stat st;
  if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < 4096) {
    ::close(fd);
    return Status::corrupt(path + " is not a ring");
  }
  const auto bytes = static_cast<size_t>(st.st_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    ::close(fd);
    return errnoStatus("map", path);
  }
  std::unique_ptr<RingReader> reader(new RingReader());
  reader->fd_ = fd;
  reader->owner_ = st.st_uid;
  reader->path_ = path;
  reader->base_ = static_cast<char*>(base);
  reader->bytes_ = bytes;
  reader->guard_ = std::make_unique<GuardedMapping>(base, bytes);
  reader->header_ = static_cast<RingHeader*>(base);
  const RingHeader& h = *reader->header_;
  if (h.magic != kMagic) return Status::corrupt(path + " is not a ring, or is not complete yet");
  std::atomic_thread_fence(std::memory_order_acquire);
  if (h.version != kVersion || h.record_bytes != sizeof(Record))
    return Status::unsupported(path + " was made by another version of the probe");
  // Each is read once and kept: its user may change the file at any moment.
  const uint32_t lanes = *static_cast<const volatile uint32_t*>(&h.lanes);
  const uint64_t lanes_offset = *static_cast<const volatile uint64_t*>(&h.lanes_offset);
  const uint64_t strings_offset = *static_cast<const volatile uint64_t*>(&h.strings_offset);
  const uint64_t strings_bytes = *static_cast<const volatile uint64_t*>(&h.strings_bytes);
  if (h.file_bytes != bytes || lanes == 0 || lanes > kMaxLanes || lanes_offset % alignof(LaneHeader) != 0 ||
      lanes_offset > bytes || lanes > (bytes - lanes_offset) / sizeof(LaneHeader) || strings_offset > bytes ||
      strings_bytes > bytes - strings_offset)
    return Status::corrupt(path + " has an invalid header");
  reader->lane_count_ = lanes;
  reader->strings_offset_ = strings_offset;
  reader->strings_bytes_ = strings_bytes;
  reader->lanes_ = reinterpret_cast<LaneHeader*>(reader->base_ + lanes_offset);
  for (uint32_t i = 0; i < lanes; ++i) {
    const LaneHeader& lane = reader->lanes_[i];
    const LaneShape shape{*static_cast<const volatile uint64_t*>(&lane.offset),
                          *static_cast<const volatile uint32_t*>(&lane.records)};
    if (!std::has_single_bit(shape.records) || shape.records > kMaxLaneRecords || shape.offset % 64 != 0 ||
        shape.offset > bytes || shape.records > (bytes - shape.offset) / sizeof(Record))
      return Status::corrupt(path + " has an invalid lane");
    reader->shapes_.push_back(shape);
  }
  return reader;
}

RingReader::~RingReader() {
  if (attached_) detach();
  guard_.reset();
  if (base_) ::munmap(base_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

size_t RingReader::drain(const std::function<void(uint32_t, const Record&)>& visit) {
  size_t count = 0;
  // The GPU's lane comes last and only up to what was there at the start: a kernel's record comes after the records of
  // the host calls that started it, whatever lane those are in.
  const uint64_t gpu_head = lanes_[0].head.load(std::memory_order_acquire);
  for (uint32_t i = std::min(lane_count_, header_->lanes_used.load(std::memory_order_acquire)); i-- > 0;) {
    LaneHeader& lane = lanes_[i];
    const auto* records = reinterpret_cast<const Record*>(base_ + shapes_[i].offset);
    const uint64_t head = i == 0 ? gpu_head : lane.head.load(std::memory_order_acquire);
    uint64_t tail = lane.tail.load(std::memory_order_relaxed);
    if (head - tail > shapes_[i].records) tail = head - std::min<uint64_t>(head, shapes_[i].records);
    while (tail != head) {
      const Record record = records[tail & (shapes_[i].records - 1)];
      ++tail, ++count;
      if (tail % kGiveBack == 0) lane.tail.store(tail, std::memory_order_release);
      visit(i, record);
    }
    lane.tail.store(tail, std::memory_order_release);
  }
  return count;
}

size_t RingReader::read(std::vector<uint64_t>& cursors, uint64_t& skipped,
                        const std::function<void(uint32_t, const Record&)>& visit) const {
  size_t count = 0;
  cursors.resize(lane_count_, 0);
  const uint64_t gpu_head = lanes_[0].head.load(std::memory_order_acquire);  // the GPU's lane last, as in drain
  for (uint32_t i = std::min(lane_count_, header_->lanes_used.load(std::memory_order_acquire)); i-- > 0;) {
    const LaneHeader& lane = lanes_[i];
    const auto* records = reinterpret_cast<const Record*>(base_ + shapes_[i].offset);
    const uint64_t head = i == 0 ? gpu_head : lane.head.load(std::memory_order_acquire);
    uint64_t& cursor = cursors[i];
    const uint64_t tail = lane.tail.load(std::memory_order_relaxed);
    if (cursor < tail) {
      skipped += tail - cursor;
      cursor = tail;
    }
    if (cursor > head) cursor = head;
    if (head - cursor > shapes_[i].records) {
      skipped += head - cursor - shapes_[i].records;
      cursor = head - shapes_[i].records;
    }
    for (; cursor != head; ++cursor, ++count) {
      const Record record = records[cursor & (shapes_[i].records - 1)];
      visit(i, record);
    }
  }
  return count;
}

void RingReader::release(const std::vector<uint64_t>& cursors) {
  for (size_t i = 0; i < lane_count_ && i < cursors.size(); ++i)
    if (lanes_[i].tail.load(std::memory_order_relaxed) < cursors[i])
      lanes_[i].tail.store(cursors[i], std::memory_order_release);
}

std::vector<uint64_t> RingReader::tails() const {
  std::vector<uint64_t> all;
  for (uint32_t i = 0; i < lane_count_; ++i) all.push_back(lanes_[i].tail.load(std::memory_order_acquire));
  return all;
}

double RingReader::held(const std::vector<uint64_t>& cursors) const {
  double most = 0;
  for (size_t i = 0; i < lane_count_ && i < cursors.size(); ++i)
    most = std::max(most, static_cast<double>(cursors[i] - lanes_[i].tail.load(std::memory_order_relaxed)) /
                              static_cast<double>(shapes_[i].records));
  return most;
}

size_t RingReader::follow(Cursors& cursors, const std::function<void(uint32_t, const Record&)>& visit) const {
  return follow(cursors, nullptr, visit);
}

size_t RingReader::follow(Cursors& cursors, const std::function<bool(const Record&)>& want,
                          const std::function<void(uint32_t, const Record&)>& visit) const {
  size_t count = 0;
  cursors.next.resize(lane_count_);
  const uint32_t used = std::min(lane_count_, header_->lanes_used.load(std::memory_order_acquire));
  const uint64_t gpu_head = lanes_[0].head.load(std::memory_order_acquire);  // the GPU's lane last, as in drain
  std::vector<std::pair<uint64_t, Record>> copy;                             // number and record
  for (uint32_t i = used; i-- > 0;) {
    const LaneHeader& lane = lanes_[i];
    const uint32_t capacity = shapes_[i].records;
    const auto* records = reinterpret_cast<const Record*>(base_ + shapes_[i].offset);
    const uint64_t head = i == 0 ? gpu_head : lane.head.load(std::memory_order_acquire);
    uint64_t& next = cursors.next[i];
    if (next > head) next = head;  // the head was set back
    while (next != head) {
      const uint64_t first = std::min(head, std::max(next, head > capacity ? head - capacity : 0));
      const uint64_t last = first + std::min(head - first, kChunk);
      copy.clear();
      for (uint64_t r = first; r != last; ++r) {
        const Record& record = records[r & (capacity - 1)];
        if (!want || want(record)) copy.emplace_back(r, record);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      // Records that the writer reached while they were copied may be torn, including the one it is writing.
      const uint64_t after = lane.head.load(std::memory_order_acquire) + 1;
      const uint64_t safe = std::min(last, std::max(first, after > capacity ? after - capacity : 0));
      cursors.missed += safe > next ? safe - next : 0;
      for (const auto& [number, record] : copy) {
        if (number < safe) continue;
        visit(i, record);
        ++count;
      }
      next = last;
    }
  }
  return count;
}

size_t RingReader::snapshot(const std::function<void(uint32_t, const Record&)>& visit) const {
  Cursors everything;
  return follow(everything, visit);
}

std::string_view RingReader::string(uint32_t id) const {
  if (id < 8 || id + 4ull > strings_bytes_) return {};
  uint32_t length;
  std::memcpy(&length, base_ + strings_offset_ + id, 4);
  asm volatile("" : "+r"(length));  // read once
  if (length > kMaxString || length > strings_bytes_ - id - 4) return {};
  return {base_ + strings_offset_ + id + 4, length};
}

std::string RingReader::text(const Name& name) const {
  const std::string_view text = string(name.id);
  if (!name.numbered) return std::string(text);
  std::string out;
  int next = 0;
  for (char c : text)
    if (c == kNumber && next < kMostNumbers)
      out += std::to_string(name.numbers[next++]);
    else
      out += c;
  return out;
}

Result<std::string> ringFolder() {
  std::string folder;
  if (const char* set = std::getenv("TRACESMITH_DIR"); set && *set) {
    folder = set;
  } else {
    folder = (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/tracesmith-") +
             std::to_string(::getuid());
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return errnoStatus("create", folder);
  struct stat st;
  if (::lstat(folder.c_str(), &st) != 0) return errnoStatus("stat", folder);
  if (!S_ISDIR(st.st_mode) || st.st_uid != ::getuid() || (st.st_mode & 077))
    return Status::invalid(folder + " must be a folder that belongs to you and that nobody else can enter (chmod 700)");
  return folder;
}

std::string spareOf(const std::string& folder) {
  char path[512];
  return spareFolder(folder.c_str(), path, sizeof path) && isGoodSpare(folder.c_str(), path) ? path : "";
}

std::vector<std::string> findRings(const std::string& folder) {
  std::vector<std::string> rings;
  std::error_code ignored;
  for (const std::string& place : {folder, spareOf(folder)})
    for (const auto& entry : std::filesystem::directory_iterator(place, ignored))
      if (entry.path().extension() == ".ring") rings.push_back(entry.path());
  std::sort(rings.begin(), rings.end());
  return rings;
}

}  // namespace tracesmith::ring
