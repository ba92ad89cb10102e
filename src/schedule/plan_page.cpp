#include "schedule/plan_page.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/file.hpp"
#include "trace/layout.hpp"

namespace tracesmith::schedule {

namespace {

constexpr char kMagic[8] = {'T', 'S', 'P', 'L', 'A', 'N', '0', '2'};

struct Header {
  char magic[8];
  int64_t ranks, total, ahead, vote, terms;  // terms: their bytes
  uint64_t checksum;                         // of what is before it, and of the terms
  int64_t visits;
};
static_assert(sizeof(Header) == 64);

struct Slot {
  uint64_t checksum;  // of what follows, the ranks too
  int64_t version, from_step, ranks;
  double before_s, after_s;
  char reason[208];
};
static_assert(sizeof(Slot) == 256);

struct SlotRank {
  int64_t batch, micro_batches;
  double weight;
  int64_t layers, priority;
};
static_assert(sizeof(SlotRank) == 40);

struct Words {
  int64_t begun, seen[2], out_of_memory, reports, follows, spare[2];
};
static_assert(sizeof(Words) == 64);

struct Report {
  int64_t step, samples;
  double busy_s, wall_s;
  uint64_t checksum;  // of what is before it, and of its number
};
static_assert(sizeof(Report) == 40);

constexpr int64_t kRankBytes = sizeof(Words) + PlanPage::kReports * sizeof(Report);
constexpr int64_t kQuietSeconds = 60;  // a page that is younger may get its ranks yet
constexpr int64_t kStepBits = 40;      // of a word with a version and a step
constexpr int64_t kStepMask = (int64_t{1} << kStepBits) - 1;

uint64_t headerChecksum(const Header& h, const std::string& terms) {
  return trace::hash64(&h, offsetof(Header, checksum)) + trace::hash64(terms.data(), terms.size());
}

int64_t wordOf(const Seen& seen) { return seen.version << kStepBits | (seen.step & kStepMask); }
Seen seenOf(int64_t word) { return {word >> kStepBits, word & kStepMask}; }

uint64_t reportChecksum(const Report& r, int64_t number) {
  return trace::hash64(&r, offsetof(Report, checksum)) + static_cast<uint64_t>(number);
}

uint64_t slotChecksum(const std::vector<char>& bytes) {
  return trace::hash64(bytes.data() + sizeof(uint64_t), bytes.size() - sizeof(uint64_t));
}

Status checkShape(const std::string& path, const JobShape& s) {
  if (s.ranks < 1 || s.ranks > PlanPage::kMostRanks || s.total < s.ranks || s.ahead < 0 || s.ahead > 1'000'000)
    return Status::invalid(path + ": " + std::to_string(s.ranks) + " ranks with " + std::to_string(s.total) +
                           " samples in a step, " + std::to_string(s.ahead) + " batches ahead, is no job");
  return {};
}

}  // namespace

PlanPage::~PlanPage() { ::close(fd_); }

int64_t PlanPage::slotBytes() const { return sizeof(Slot) + shape_.ranks * sizeof(SlotRank); }
int64_t PlanPage::slotAt(int64_t which) const {
  return static_cast<int64_t>(sizeof(Header) + terms_.size()) + which * slotBytes();
}
int64_t PlanPage::rankAt(int64_t rank) const { return slotAt(2) + rank * kRankBytes; }

Status PlanPage::write(int64_t at, const void* data, size_t size) {
  ssize_t done = 0;
  do {
    done = ::pwrite(fd_, data, size, at);
  } while (done < 0 && errno == EINTR);
  if (done == static_cast<ssize_t>(size)) return {};
  return done < 0 ? errnoStatus("write", path_) : Status::io("cannot write " + path_ + ": no room");
}

Status PlanPage::read(int64_t at, void* data, size_t size) const {
  ssize_t done = 0;
  do {
    done = ::pread(fd_, data, size, at);
  } while (done < 0 && errno == EINTR);
  if (done == static_cast<ssize_t>(size)) return {};
  return done < 0 ? errnoStatus("read", path_) : Status::corrupt(path_ + " was cut short");
}

Result<std::unique_ptr<PlanPage>> PlanPage::create(const std::string& path, const JobShape& shape,
                                                   const std::string& terms) {
  TS_TRY(checkShape(path, shape));
  if (static_cast<int64_t>(terms.size()) > kMostTerms) return Status::invalid(path + ": the terms are too long");
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errnoStatus("create", path);
  std::unique_ptr<PlanPage> page(new PlanPage(path, fd));
  page->shape_ = shape;
  page->terms_ = terms;
  // All of its room now: a job must not fail later because shared memory is full.
  if (const int error = ::posix_fallocate(fd, 0, page->rankAt(shape.ranks)); error != 0) {
    errno = error;
    const Status status = errnoStatus("create", path);
    ::unlink(path.c_str());
    return status;
  }
  Header header{{}, shape.ranks, shape.total, shape.ahead, shape.vote, static_cast<int64_t>(terms.size()), 0, 0};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = headerChecksum(header, terms);
  TS_TRY(page->write(sizeof header, terms.data(), terms.size()));
  TS_TRY(page->write(0, &header, sizeof header));
  return page;
}

Result<std::unique_ptr<PlanPage>> PlanPage::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  return fd < 0 ? errnoStatus("open", path) : opened(path, fd, false);
}

Result<std::unique_ptr<PlanPage>> PlanPage::openFound(const std::string& path, uint32_t owner) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return errnoStatus("open", path);
  struct stat st {};
  const char* why = ::fstat(fd, &st) != 0                            ? "it cannot be looked at"
                    : !S_ISREG(st.st_mode)                           ? "it is not a file"
                    : st.st_uid != owner && st.st_uid != ::geteuid() ? "it belongs to another user"
                    : (st.st_mode & 022) != 0 || st.st_nlink != 1    ? "other users can write to it"
                                                                     : nullptr;
  if (!why) return opened(path, fd, true);
  ::close(fd);
  return Status::invalid(path + " is not read: " + why);
}

/// `whole`: as long as it must be, neither shorter nor longer.
Result<std::unique_ptr<PlanPage>> PlanPage::opened(const std::string& path, int fd, bool whole) {
  std::unique_ptr<PlanPage> page(new PlanPage(path, fd));
  Header header{};
  TS_TRY(page->read(0, &header, sizeof header));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Status::corrupt(path + " is no page of plans");
  const Status damaged = Status::corrupt(path + " is damaged: its header is not whole");
  if (header.terms < 0 || header.terms > kMostTerms) return damaged;
  page->terms_.resize(static_cast<size_t>(header.terms));
  TS_TRY(page->read(sizeof header, page->terms_.data(), page->terms_.size()));
  if (header.checksum != headerChecksum(header, page->terms_)) return damaged;
  page->shape_ = {header.ranks, header.total, header.ahead, header.vote != 0};
  TS_TRY(checkShape(path, page->shape_));
  struct stat st {};
  if (whole && (::fstat(fd, &st) != 0 || st.st_size != page->rankAt(header.ranks)))
    return Status::corrupt(path + " is damaged: it is not as long as it must be");
  return page;
}

Status PlanPage::lockCoordinator() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return errnoStatus("lock", path_);
  return Status::busy("another coordinator balances the job of " + path_ + ": end it first");
}

namespace {

std::vector<char> slotOf(const Plan& plan) {
  Slot slot{0, plan.version, plan.from_step, static_cast<int64_t>(plan.ranks.size()), plan.before_s, plan.after_s, {}};
  std::memcpy(slot.reason, plan.reason.data(), std::min(plan.reason.size(), sizeof slot.reason - 1));
  std::vector<char> bytes(sizeof slot + plan.ranks.size() * sizeof(SlotRank), 0);
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& p = plan.ranks[r];
    const SlotRank rank{p.batch, p.micro_batches, p.weight, p.layers, p.priority};
    std::memcpy(bytes.data() + sizeof slot + r * sizeof rank, &rank, sizeof rank);
  }
  std::memcpy(bytes.data(), &slot, sizeof slot);
  slot.checksum = slotChecksum(bytes);
  std::memcpy(bytes.data(), &slot.checksum, sizeof slot.checksum);
  return bytes;
}

}  // namespace

Status PlanPage::publish(const Plan& plan) {
  TS_TRY(checkPlan(plan, shape_.ranks, shape_.total));
  const std::vector<char> bytes = slotOf(plan);
  return write(slotAt(plan.version % 2), bytes.data(), bytes.size());
}

int64_t PlanPage::digest(const Plan& plan) {
  Plan work = plan;
  work.from_step = 0;  // that of a vote is known only after it
  work.before_s = work.after_s = 0;
  work.reason.clear();
  const std::vector<char> bytes = slotOf(work);
  return static_cast<int64_t>(slotChecksum(bytes) >> 2);
}

Result<Plan> PlanPage::slot(int64_t which) const {
  std::vector<char> bytes(static_cast<size_t>(slotBytes()));
  TS_TRY(read(slotAt(which), bytes.data(), bytes.size()));
  Slot slot{};
  std::memcpy(&slot, bytes.data(), sizeof slot);
  if (slot.checksum == 0 && slot.version == 0) return Status::notFound(path_ + " has no plan yet");
  if (slot.checksum != slotChecksum(bytes) || slot.ranks != shape_.ranks || slot.version % 2 != which)
    return Status::corrupt(path_ + ": a plan is damaged, or being written");
  Plan plan;
  plan.version = slot.version;
  plan.from_step = slot.from_step;
  plan.before_s = slot.before_s;
  plan.after_s = slot.after_s;
  plan.reason.assign(slot.reason, ::strnlen(slot.reason, sizeof slot.reason));
  for (int64_t r = 0; r < shape_.ranks; ++r) {
    SlotRank rank{};
    std::memcpy(&rank, bytes.data() + sizeof slot + static_cast<size_t>(r) * sizeof rank, sizeof rank);
    plan.ranks.push_back({rank.batch, rank.micro_batches, rank.weight, rank.layers, rank.priority});
  }
  return plan;
}

Result<Plan> PlanPage::latest() const {
  const Result<Plan> even = slot(0), odd = slot(1);
  if (even && odd) return even->version > odd->version ? even : odd;
  if (even) return even;
  if (odd) return odd;
  return even.status().code() == Code::kNotFound ? odd : even;
}

Result<Plan> PlanPage::plan(int64_t version) const {
  if (version > 0) {
    Result<Plan> found = slot(version % 2);
    if (found && found->version == version) return found;
  }
  return Status::notFound(path_ + " has no plan " + std::to_string(version));
}

bool PlanPage::agreed(const Plan& plan) const {
  if (plan.from_step == 0) return true;  // the job began with it
  for (int64_t r = 0; r < shape_.ranks; ++r) {
    const Result<RankWords> of_rank = words(r);
    if (!of_rank) return false;
    const Seen& seen = of_rank->seen[plan.version % 2];
    if (seen.version != plan.version || seen.step > plan.from_step - 1 - shape_.ahead) return false;
  }
  return true;
}

Result<RankWords> PlanPage::words(int64_t rank) const {
  if (rank < 0 || rank >= shape_.ranks) return Status::invalid(path_ + " has no rank " + std::to_string(rank));
  Words words{};
  TS_TRY(read(rankAt(rank), &words, sizeof words));
  RankWords out{words.begun, {}, seenOf(words.follows), words.out_of_memory, words.reports};
  for (int i = 0; i < 2; ++i) out.seen[i] = seenOf(words.seen[i]);
  return out;
}

Status PlanPage::hold(int64_t rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rankAt(rank);
  lock.l_len = 1;
  if (::fcntl(fd_, F_OFD_SETLK, &lock) == 0) return {};
  if (errno != EAGAIN && errno != EACCES) return errnoStatus("lock", path_);
  return Status::busy("another process is rank " + std::to_string(rank) + " of the job of " + path_);
}

bool PlanPage::abandoned() const {
  struct stat st {};
  if (::fstat(fd_, &st) != 0 || ::time(nullptr) - st.st_mtime < kQuietSeconds) return false;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rankAt(0);
  lock.l_len = shape_.ranks * kRankBytes;
  return ::fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

Status PlanPage::begin(int64_t rank, int64_t step) {
  const int64_t begun = step + 1;
  return write(rankAt(rank) + static_cast<int64_t>(offsetof(Words, begun)), &begun, sizeof begun);
}

Status PlanPage::see(int64_t rank, const Seen& seen) {
  const int64_t word = wordOf(seen);
  const int64_t at = static_cast<int64_t>(offsetof(Words, seen)) + seen.version % 2 * 8;
  return write(rankAt(rank) + at, &word, sizeof word);
}

Status PlanPage::follow(int64_t rank, const Seen& plan) {
  const int64_t word = wordOf(plan);
  return write(rankAt(rank) + static_cast<int64_t>(offsetof(Words, follows)), &word, sizeof word);
}

Status PlanPage::visit() {
  const Result<int64_t> before = visits();
  if (!before) return before.status();
  const int64_t now = *before + 1;
  return write(static_cast<int64_t>(offsetof(Header, visits)), &now, sizeof now);
}

Result<int64_t> PlanPage::visits() const {
  int64_t now = 0;
  TS_TRY(read(static_cast<int64_t>(offsetof(Header, visits)), &now, sizeof now));
  return now;
}

Status PlanPage::outOfMemory(int64_t rank, int64_t batch) {
  const Result<RankWords> now = words(rank);
  if (!now) return now.status();
  if (batch < 1 || (now->out_of_memory != 0 && now->out_of_memory <= batch)) return {};
  return write(rankAt(rank) + static_cast<int64_t>(offsetof(Words, out_of_memory)), &batch, sizeof batch);
}

Status PlanPage::report(int64_t rank, int64_t count, const StepMeasure& m) {
  Report report{m.step, m.samples, m.busy_s, m.wall_s, 0};
  report.checksum = reportChecksum(report, count);
  const int64_t at = rankAt(rank) + static_cast<int64_t>(sizeof(Words));
  TS_TRY(write(at + count % kReports * static_cast<int64_t>(sizeof report), &report, sizeof report));
  const int64_t reports = count + 1;
  return write(rankAt(rank) + static_cast<int64_t>(offsetof(Words, reports)), &reports, sizeof reports);
}

Result<std::vector<StepMeasure>> PlanPage::reports(int64_t rank, int64_t from) const {
  const Result<RankWords> now = words(rank);
  if (!now) return now.status();
  Report ring[kReports] = {};
  TS_TRY(read(rankAt(rank) + static_cast<int64_t>(sizeof(Words)), ring, sizeof ring));
  std::vector<StepMeasure> out;
  const int64_t end = std::clamp<int64_t>(now->reports, 0, kStepMask);  // whatever is in the file
  for (int64_t i = std::max<int64_t>({from, end - kReports, 0}); i < end; ++i) {
    const Report& r = ring[i % kReports];
    if (r.checksum == reportChecksum(r, i)) out.push_back({r.step, r.samples, r.busy_s, r.wall_s});
  }
  return out;
}

}  // namespace tracesmith::schedule
