#include "schedule/plan_page.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.hpp"
#include "trace/layout.hpp"

namespace tracesmith::schedule {

namespace {

constexpr char kMagic[8] = {'T', 'S', 'P', 'L', 'A', 'N', '0', '1'};

struct Header {
  char magic[8];
  int64_t ranks, total, ahead, spare[3];
  uint64_t checksum;  // of what is before it
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
  int64_t begun, seen[2], out_of_memory, reports, spare[3];
};
static_assert(sizeof(Words) == 64);

struct Report {
  int64_t step, samples;
  double busy_s, wall_s;
  uint64_t checksum;  // of what is before it, and of its number
};
static_assert(sizeof(Report) == 40);

constexpr int64_t kRankBytes = sizeof(Words) + PlanPage::kReports * sizeof(Report);
constexpr int64_t kStepBits = 40;  // of a word with a version and a step
constexpr int64_t kStepMask = (int64_t{1} << kStepBits) - 1;

uint64_t headerChecksum(const Header& h) { return trace::hash64(&h, offsetof(Header, checksum)); }

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
int64_t PlanPage::rankAt(int64_t rank) const { return sizeof(Header) + 2 * slotBytes() + rank * kRankBytes; }

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

Result<std::unique_ptr<PlanPage>> PlanPage::create(const std::string& path, const JobShape& shape) {
  TS_TRY(checkShape(path, shape));
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errnoStatus("create", path);
  std::unique_ptr<PlanPage> page(new PlanPage(path, fd));
  page->shape_ = shape;
  // All of its room now: a job must not fail later because shared memory is full.
  if (const int error = ::posix_fallocate(fd, 0, page->rankAt(shape.ranks)); error != 0) {
    errno = error;
    const Status status = errnoStatus("create", path);
    ::unlink(path.c_str());
    return status;
  }
  Header header{{}, shape.ranks, shape.total, shape.ahead, {}, 0};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.checksum = headerChecksum(header);
  TS_TRY(page->write(0, &header, sizeof header));
  return page;
}

Result<std::unique_ptr<PlanPage>> PlanPage::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errnoStatus("open", path);
  std::unique_ptr<PlanPage> page(new PlanPage(path, fd));
  Header header{};
  TS_TRY(page->read(0, &header, sizeof header));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Status::corrupt(path + " is no page of plans");
  if (header.checksum != headerChecksum(header)) return Status::corrupt(path + " is damaged: its header is not whole");
  page->shape_ = {header.ranks, header.total, header.ahead};
  TS_TRY(checkShape(path, page->shape_));
  return page;
}

Status PlanPage::lockCoordinator() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return errnoStatus("lock", path_);
  return Status::busy("another coordinator balances the job of " + path_ + ": end it first");
}

Status PlanPage::publish(const Plan& plan) {
  TS_TRY(checkPlan(plan, shape_.ranks, shape_.total));
  std::vector<char> bytes(static_cast<size_t>(slotBytes()), 0);
  Slot slot{0, plan.version, plan.from_step, shape_.ranks, plan.before_s, plan.after_s, {}};
  std::memcpy(slot.reason, plan.reason.data(), std::min(plan.reason.size(), sizeof slot.reason - 1));
  std::memcpy(bytes.data(), &slot, sizeof slot);
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& p = plan.ranks[r];
    const SlotRank rank{p.batch, p.micro_batches, p.weight, p.layers, p.priority};
    std::memcpy(bytes.data() + sizeof slot + r * sizeof rank, &rank, sizeof rank);
  }
  const uint64_t checksum = slotChecksum(bytes);
  std::memcpy(bytes.data(), &checksum, sizeof checksum);
  return write(static_cast<int64_t>(sizeof(Header)) + plan.version % 2 * slotBytes(), bytes.data(), bytes.size());
}

Result<Plan> PlanPage::slot(int64_t which) const {
  std::vector<char> bytes(static_cast<size_t>(slotBytes()));
  TS_TRY(read(static_cast<int64_t>(sizeof(Header)) + which * slotBytes(), bytes.data(), bytes.size()));
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
  RankWords out{words.begun, {}, words.out_of_memory, words.reports};
  for (int i = 0; i < 2; ++i) out.seen[i] = {words.seen[i] >> kStepBits, words.seen[i] & kStepMask};
  return out;
}

Status PlanPage::begin(int64_t rank, int64_t step) {
  const int64_t begun = step + 1;
  return write(rankAt(rank) + static_cast<int64_t>(offsetof(Words, begun)), &begun, sizeof begun);
}

Status PlanPage::see(int64_t rank, const Seen& seen) {
  const int64_t word = seen.version << kStepBits | (seen.step & kStepMask);
  const int64_t at = static_cast<int64_t>(offsetof(Words, seen)) + seen.version % 2 * 8;
  return write(rankAt(rank) + at, &word, sizeof word);
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
  for (int64_t i = std::max(from, now->reports - kReports); i < now->reports; ++i) {
    const Report& r = ring[i % kReports];
    if (i >= 0 && r.checksum == reportChecksum(r, i)) out.push_back({r.step, r.samples, r.busy_s, r.wall_s});
  }
  return out;
}

}  // namespace tracesmith::schedule
