#include "capture/ring/writer.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "capture/ring/identity.hpp"

namespace tracesmith::ring {
namespace {

// Static TLS: the dynamic kind would allocate inside the job at a thread's first record.
struct ThreadState {
  RingWriter* ring;
  LaneHeader* lane;
  int32_t tid;
  uint32_t refused;  // no lane was left for it
};
__attribute__((tls_model("initial-exec"))) thread_local ThreadState t_state;
constexpr uint32_t kAskAgain = 256;  // records lost before a thread without a lane looks for one again
pthread_key_t g_exit_key;
std::atomic<bool> g_has_key{false};
pthread_once_t g_exit_once = PTHREAD_ONCE_INIT;

void releaseLane(void* lane) {
  t_state = {};  // a later destructor may still write: it takes a new lane
  static_cast<LaneHeader*>(lane)->taken.store(0, std::memory_order_release);
}

uint64_t hashBytes(const char* s, size_t n) {
  uint64_t h = 0xcbf29ce484222325ull ^ n;
  while (n >= 8) {
    uint64_t w;
    memcpy(&w, s, 8);
    h = (h ^ w) * 0x9fb21c651e98df25ull;
    h ^= h >> 32;
    s += 8;
    n -= 8;
  }
  uint64_t w = 0;
  memcpy(&w, s, n);
  h = (h ^ w) * 0x9fb21c651e98df25ull;
  return h ^ (h >> 29);
}

constexpr uint64_t kStepBytes = 1u << 20;  // of a ring that grows
constexpr uint64_t kStepRecords = kStepBytes / sizeof(Record);
constexpr char kNoRoom[] = "the file system of the ring is full: records are lost";

uint64_t roundUp(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

}  // namespace

std::atomic<RingWriter*> g_ring{nullptr};

int64_t threadId() {
  if (t_state.tid == 0) t_state.tid = static_cast<int32_t>(syscall(SYS_gettid));
  return t_state.tid;
}

void forgetThreadLane() {
  t_state = {};
  if (g_has_key.load()) pthread_setspecific(g_exit_key, nullptr);  // the parent's thread still has that lane
}

RingWriter* RingWriter::create(const char* path, const RingOptions& o, void* memory) {
  const uint64_t lanes_offset = 4096;
  const uint64_t records_offset = roundUp(lanes_offset + o.lanes * sizeof(LaneHeader), 4096);
  const uint64_t records_bytes =
      (o.lane0_records + static_cast<uint64_t>(o.lanes - 1) * o.lane_records) * sizeof(Record);
  const uint64_t strings_offset = records_offset + records_bytes;
  const uint64_t bytes = strings_offset + o.strings_bytes;
  const bool grow = o.grow && o.lane0_records > kStepRecords && o.strings_bytes > kStepBytes;
  const uint64_t gpu_room = grow ? kStepRecords : o.lane0_records;
  const uint64_t strings_room = grow ? kStepBytes : o.strings_bytes;
  // Beyond the file size limit, the kernel would send a signal that ends the process.
  if (rlimit limit; getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) {
    errno = EFBIG;
    return nullptr;
  }
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return nullptr;
  void* base = MAP_FAILED;
  auto room = [&](uint64_t from, uint64_t size) {
    return fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(size)) == 0 || errno == EOPNOTSUPP;
  };
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && room(0, records_offset + gpu_room * sizeof(Record)) &&
      room(strings_offset, strings_room))
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* slots = base == MAP_FAILED ? MAP_FAILED
                                   : mmap(nullptr, o.string_slots * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (slots == MAP_FAILED) {
    int error = errno;
    if (base != MAP_FAILED) munmap(base, bytes);
    close(fd);
    unlink(path);
    errno = error;
    return nullptr;
  }
  static char own[sizeof(RingWriter)];  // a forked child builds its own over it
  RingWriter* ring = new (memory ? memory : own) RingWriter();
  strncpy(ring->path_, path, sizeof ring->path_ - 1);
  // Whoever looks, from whatever PID namespace, sees that this process lives: the mapping keeps the lock until the
  // process ends, however it ends. It takes no file descriptor of the job.
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  ring->base_ = static_cast<char*>(base);
  ring->header_ = new (base) RingHeader{};
  ring->lanes_ = reinterpret_cast<LaneHeader*>(ring->base_ + lanes_offset);
  ring->strings_ = ring->base_ + strings_offset;
  ring->slots_ = static_cast<std::atomic<uint64_t>*>(slots);
  ring->slot_count_ = o.string_slots;
  ring->gpu_room_ = grow ? gpu_room : UINT64_MAX;
  ring->strings_room_ = strings_room;
  uint64_t offset = records_offset;
  for (uint32_t i = 0; i < o.lanes; ++i) {
    LaneHeader* lane = new (ring->lanes_ + i) LaneHeader{};
    lane->records = i == 0 ? o.lane0_records : o.lane_records;
    lane->offset = offset;
    offset += lane->records * sizeof(Record);
  }
  ring->lanes_->taken = 1;
  RingHeader& h = *ring->header_;
  h.version = kVersion;
  h.header_bytes = sizeof(RingHeader);
  h.file_bytes = bytes;
  h.lanes = o.lanes;
  h.lane0_records = o.lane0_records;
  h.lane_records = o.lane_records;
  h.record_bytes = sizeof(Record);
  h.lanes_offset = lanes_offset;
  h.strings_offset = strings_offset;
  h.strings_bytes = o.strings_bytes;
  h.strings_head = 8;  // id 0 is "no string"
  h.pid = h.writer_pid = getpid();
  h.parent_pid = getppid();
  h.pid_namespace = pidNamespace();
  h.writer_start = processFacts(getpid()).start_ticks;
  h.locked = locked;
  h.start_ns = nowNs();
  h.start_unix_ns = h.start_ns + static_cast<uint64_t>(unixMinusRaw());
  h.rank = h.world_size = h.local_rank = -1;
  h.lanes_used = 1;
  std::atomic_thread_fence(std::memory_order_release);
  h.magic = kMagic;  // last: whoever sees it also sees the rest
  return ring;
}

LaneHeader* RingWriter::threadLane() {
  if (t_state.ring == this && (t_state.lane || ++t_state.refused % kAskAgain != 0)) return t_state.lane;
  t_state.ring = this;
  t_state.lane = takeLane(threadId());
  if (t_state.lane && g_has_key) pthread_setspecific(g_exit_key, t_state.lane);
  return t_state.lane;
}

/// Of whole pages.
bool RingWriter::makeRoom(uint64_t offset, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(base_ + offset, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  int fd = open(path_, O_RDWR | O_CLOEXEC | O_NOFOLLOW);  // a kernel before 5.14
  if (fd < 0) return false;
  const bool good = fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 || errno == EOPNOTSUPP;
  close(fd);
  return good;
}

bool RingWriter::growGpu() {
  if (refused_ != 0 && ++refused_ % kAskAgain != 0) return false;
  const int saved = errno;
  const bool good = makeRoom(lanes_->offset + gpu_room_ * sizeof(Record), kStepBytes);
  errno = saved;
  if (!good) {
    if (refused_++ == 0) memcpy(header_->note, kNoRoom, sizeof kNoRoom);
    return false;
  }
  refused_ = 0;
  gpu_room_ += kStepRecords;
  if (gpu_room_ >= lanes_->records) gpu_room_ = UINT64_MAX;
  return true;
}

/// Any number of threads at once: to take the same room twice does no harm.
bool RingWriter::growStrings(uint64_t to) {
  const int saved = errno;
  for (uint64_t room = strings_room_.load(); room < to; room = strings_room_.load()) {
    const uint64_t more = room + kStepBytes < header_->strings_bytes ? kStepBytes : header_->strings_bytes - room;
    const bool good = makeRoom(static_cast<uint64_t>(strings_ - base_) + room, more);
    errno = saved;
    if (!good) return false;
    strings_room_.compare_exchange_strong(room, room + more);
  }
  return true;
}

LaneHeader* RingWriter::takeLane(int64_t tid) {
  pthread_once(&g_exit_once, [] { g_has_key = pthread_key_create(&g_exit_key, releaseLane) == 0; });
  const int saved = errno;
  for (uint32_t i = 1; i < header_->lanes; ++i) {
    LaneHeader& lane = lanes_[i];
    uint32_t free = 0;
    if (lane.taken.load(std::memory_order_relaxed) ||
        !lane.taken.compare_exchange_strong(free, 1, std::memory_order_acquire))
      continue;
    if (full(lane)) {  // the record that names the new owner would be lost, and the next records would seem to be the
                       // last owner's
      lane.taken.store(0);
      continue;
    }
    if (lane.head.load(std::memory_order_relaxed) == 0 &&
        !makeRoom(lane.offset, lane.records * sizeof(Record))) {  // there will be none for other lanes either
      lane.taken.store(0);
      break;
    }
    uint32_t used = header_->lanes_used.load();
    while (used < i + 1 && !header_->lanes_used.compare_exchange_weak(used, i + 1)) {
    }
    writeTo(lane, encode(ThreadRecord{.thread = tid, .start = nowNs()}));
    errno = saved;
    return &lane;
  }
  errno = saved;
  return nullptr;
}

void RingWriter::unmap() {
  munmap(slots_, slot_count_ * sizeof(uint64_t));
  munmap(base_, header_->file_bytes);
  base_ = nullptr;
}

uint32_t RingWriter::addLane(int64_t tid) {
  LaneHeader* lane = takeLane(tid);
  return lane ? static_cast<uint32_t>(lane - lanes_) : 0;
}

uint32_t RingWriter::intern(const char* s) { return s ? intern(s, strlen(s)) : 0; }

Name RingWriter::name(const char* s) {
  if (!s) return {};
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  char text[256];
  const size_t length = strlen(s);
  bool numbers = false, marks = false;
  for (size_t i = 0; i < length; ++i) {  // most names have none: look at many bytes at once
    numbers |= isDigit(s[i]);
    marks |= s[i] == kNumber;
  }
  if (!numbers || marks || length > sizeof text) return {intern(s, length)};
  Name name;
  name.numbered = true;
  size_t n = 0;
  int count = 0;
  for (const char *p = s, *last = s + length; p < last;) {
    const char* run = p;
    while (run < last && !isDigit(*run)) ++run;
    const char* end = run;
    while (end < last && isDigit(*end)) ++end;
    // It must look the same when it is written out again.
    const bool plain = end > run && end - run <= 9 && (*run != '0' || end - run == 1) && count < kMostNumbers;
    const auto kept = static_cast<size_t>((plain ? run : end) - p);
    memcpy(text + n, p, kept);
    n += kept;
    p = end;
    if (!plain) continue;
    uint32_t number = 0;
    for (; run < end; ++run) number = number * 10 + static_cast<uint32_t>(*run - '0');
    name.numbers[count++] = number;
    text[n++] = kNumber;
  }
  name.id = intern(text, n);
  return name;
}

uint32_t RingWriter::intern(const char* s, size_t length) {
  if (length > kMaxString) length = kMaxString;
  const uint64_t hash = hashBytes(s, length);
  const uint64_t tag = hash >> 32;
  for (uint32_t i = static_cast<uint32_t>(hash), probes = 0; probes < 64; ++i, ++probes) {
    std::atomic<uint64_t>& slot = slots_[i & (slot_count_ - 1)];
    uint64_t seen = slot.load(std::memory_order_acquire);
    if (seen == 0) {
      const uint64_t at = header_->strings_head.fetch_add(roundUp(4 + length, 8), std::memory_order_relaxed);
      const uint64_t end = at + 4 + length;
      if (end > header_->strings_bytes || (end > strings_room_.load(std::memory_order_relaxed) && !growStrings(end))) {
        lose(kNoStringRoom);
        return 0;
      }
      const auto n = static_cast<uint32_t>(length);
      memcpy(strings_ + at + 4, s, length);
      memcpy(strings_ + at, &n, 4);
      if (slot.compare_exchange_strong(seen, tag << 32 | at, std::memory_order_acq_rel))
        return static_cast<uint32_t>(at);
      // Another thread took the slot: look at what it put there; our copy stays, unused.
    }
    if (seen >> 32 != tag) continue;
    const auto at = static_cast<uint32_t>(seen);
    uint32_t n;
    memcpy(&n, strings_ + at, 4);
    if (n == length && memcmp(strings_ + at + 4, s, length) == 0) return at;
  }
  lose(kNoStringRoom);
  return 0;
}

}  // namespace tracesmith::ring
