// What one ring record costs its thread, and whether a reader keeps up with many threads.
// Part 1, one thread, in turns within one process: copying 64 bytes into memory of a lane's size (memcpy), reading the
// clock (clock_gettime, CLOCK_MONOTONIC_RAW), writing a record, writing a record with its time, finding the id of a
// range's name, and a record while a reader process takes them all. Medians of batches of 10,000, with the 10th and
// 90th percentile. Bar: a record costs ≤ 25 ns. Part 2: N threads write --rate records/s together, evenly, while
// another process reads them. Bar: nothing is lost.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "capture/ring/reader.hpp"
#include "capture/ring/writer.hpp"
#include "measure.hpp"

namespace tracesmith::bench {
namespace {

using namespace ring;

constexpr int kBatch = 10000;

struct Spread {
  double low = 0, median = 0, high = 0;  // 10th, 50th, 90th percentile
  static Spread of(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return {v[v.size() / 10], v[v.size() / 2], v[v.size() * 9 / 10]};
  }
};

/// ns of one of kBatch calls.
template <typename Work>
double batch(Work work) {
  const uint64_t start = nowNs();
  for (int i = 0; i < kBatch; ++i) work(i);
  return static_cast<double>(nowNs() - start) / kBatch;
}

Record sample(int i) {
  return encode(
      RangeRecord{.name = {8}, .start = static_cast<uint64_t>(i), .end = static_cast<uint64_t>(i) + 100, .thread = 1});
}

/// Reads a ring until it is told to stop (SIGTERM) and everything is read; returns how many records of kind range there
/// were.
uint64_t readAll(const std::string& path, std::atomic<bool>& stop) {
  Result<std::unique_ptr<RingReader>> reader = RingReader::open(path);
  if (!reader) return 0;
  (*reader)->attach();
  uint64_t count = 0;
  auto take = [&](uint32_t, const Record& r) { count += r.kind == Kind::range; };
  const timespec pause{0, 500'000};
  while (!stop)
    if ((*reader)->drain(take) == 0) ::nanosleep(&pause, nullptr);
  while ((*reader)->drain(take) > 0) {
  }
  return count;
}

/// A reader in a process of its own.
class ReaderProcess {
 public:
  explicit ReaderProcess(const std::string& path) {
    if (::pipe(pipe_) != 0) std::exit(1);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      static std::atomic<bool> stop{false};
      ::signal(SIGTERM, [](int) { stop = true; });
      const uint64_t count = readAll(path, stop);
      ::_exit(::write(pipe_[1], &count, sizeof count) == sizeof count ? 0 : 1);
    }
    ::close(pipe_[1]);
  }
  uint64_t finish() {
    ::kill(pid_, SIGTERM);
    uint64_t count = 0;
    if (::read(pipe_[0], &count, sizeof count) != sizeof count) std::fprintf(stderr, "the reader failed\n");
    ::close(pipe_[0]);
    ::waitpid(pid_, nullptr, 0);
    return count;
  }

 private:
  int pipe_[2];
  pid_t pid_;
};

struct Single {
  Spread copy, clock, record, with_clock, name, numbered, followed;
  uint64_t followed_lost = 0;
};

Single single(const std::string& dir, int rounds) {
  const std::string path = dir + "/ring_bench." + std::to_string(::getpid()) + ".ring";
  RingWriter* ring = RingWriter::create(path.c_str(), {});
  if (!ring) {
    std::fprintf(stderr, "no ring in %s\n", dir.c_str());
    std::exit(1);
  }
  std::vector<Record> plain(RingOptions{}.lane_records);
  std::vector<double> copy, clock, record, with_clock, name, numbered, followed;
  volatile uint64_t keep = 0;
  auto write = [&](int i) { ring->write(sample(i)); };
  for (int round = 0; round < rounds; ++round) {
    copy.push_back(batch([&](int i) {
      const Record r = sample(i);
      std::memcpy(&plain[static_cast<size_t>(i) & (plain.size() - 1)], &r, sizeof r);
      asm volatile("" ::: "memory");
    }));
    clock.push_back(batch([&](int) { keep = nowNs(); }));
    record.push_back(batch(write));
    with_clock.push_back(batch([&](int i) {
      Record r = sample(i);
      r.end = nowNs();
      ring->write(r);
    }));
    name.push_back(batch([&](int) { keep = ring->name("optimizer.step of the model").id; }));
    char text[] = "forward, iteration 1234567";
    numbered.push_back(batch([&](int i) {
      text[sizeof text - 2] = static_cast<char>('0' + i % 10);
      keep = ring->name(text).id;
    }));
  }
  {
    ReaderProcess reader(path);
    while (ring->header().reader == 0) std::this_thread::yield();
    for (int round = 0; round < rounds; ++round) {
      followed.push_back(batch(write));
      const timespec pause{0, 1'000'000};  // lets the reader follow: a full lane would drop, which is cheaper
      ::nanosleep(&pause, nullptr);
    }
    (void)reader.finish();
  }
  (void)keep;
  std::filesystem::remove(path);
  return {Spread::of(copy), Spread::of(clock),    Spread::of(record),   Spread::of(with_clock),
          Spread::of(name), Spread::of(numbered), Spread::of(followed), ring->header().losses[kRingFull]};
}

struct Many {
  uint64_t written = 0, read = 0, lost = 0;
  double seconds = 0, writer_cpu_s = 0;
};

/// In a child process, so that it has a ring of its own.
Many many(const std::string& dir, int threads, double rate, double seconds) {
  int fds[2];
  if (::pipe(fds) != 0) std::exit(1);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const std::string path = dir + "/ring_bench." + std::to_string(::getpid()) + ".ring";
    RingWriter* ring = RingWriter::create(path.c_str(), {});
    if (!ring) ::_exit(1);
    ReaderProcess reader(path);
    while (ring->header().reader == 0) std::this_thread::yield();
    Many result;
    std::atomic<uint64_t> written{0};
    const uint64_t begin = nowNs(), until = begin + static_cast<uint64_t>(seconds * 1e9);
    auto work = [&] {
      uint64_t mine = 0;
      for (uint64_t now = nowNs(); now < until; now = nowNs()) {
        const auto due = static_cast<uint64_t>(static_cast<double>(now - begin) * 1e-9 * rate / threads);
        // At most a quarter of a lane at once: a thread that was kept waiting does not make up for it in one burst.
        for (uint64_t n = std::min<uint64_t>(due - mine, 4096); n > 0; --n)
          ring->write(sample(static_cast<int>(mine++)));
        const timespec pause{0, 200'000};
        if (due - mine < 4096) ::nanosleep(&pause, nullptr);
      }
      written += mine;
    };
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) all.emplace_back(work);
    for (std::thread& t : all) t.join();
    result.seconds = static_cast<double>(nowNs() - begin) * 1e-9;
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    result.writer_cpu_s = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                          static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    result.read = reader.finish();
    result.written = written;
    result.lost = ring->header().losses[kRingFull] + ring->header().losses[kNoLane];
    std::filesystem::remove(path);
    ::_exit(::write(fds[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  ::close(fds[1]);
  Many result;
  if (::read(fds[0], &result, sizeof result) != sizeof result) {
    std::fprintf(stderr, "the writers failed\n");
    std::exit(1);
  }
  ::close(fds[0]);
  ::waitpid(pid, nullptr, 0);
  return result;
}

void print(const char* what, const Spread& s) {
  std::printf("  %-42s %6.1f ns   (%.1f–%.1f)\n", what, s.median, s.low, s.high);
}

}  // namespace
}  // namespace tracesmith::bench

int main(int argc, char** argv) {
  using namespace tracesmith;
  using namespace tracesmith::bench;
  usage(argc, argv, "ring_bench [--smoke] [--seconds S] [--threads N] [--rate RECORDS/S] [--dir D] [--json OUT]");
  const bool smoke = flag(argc, argv, "--smoke");
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::stoi(option(argc, argv, "--threads", std::to_string(std::min(16, 4 * cores))));
  const double rate = std::stod(option(argc, argv, "--rate", "10e6"));
  const double seconds = std::stod(option(argc, argv, "--seconds", smoke ? "0.3" : "5"));
  const std::string dir =
      option(argc, argv, "--dir",
             ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string());

  const Many m = many(dir, threads, rate, seconds);
  const Single s = single(dir, smoke ? 30 : 1000);
  std::printf("one thread, ns per call, median (10th–90th percentile) of batches of %d:\n", kBatch);
  print("memcpy of 64 bytes", s.copy);
  print("clock_gettime(CLOCK_MONOTONIC_RAW)", s.clock);
  print("a ring record", s.record);
  print("a ring record with its time", s.with_clock);
  print("a ring record, a reader following", s.followed);
  print("the name of a range", s.name);
  print("the name of a range with a number in it", s.numbered);
  std::printf("a ring record costs %.1f × a memcpy, %.1f × a clock reading; bar: 25 ns: %s\n",
              s.record.median / s.copy.median, s.record.median / s.clock.median,
              s.record.median <= 25 ? "met" : "NOT met");
  const double achieved = static_cast<double>(m.written) / m.seconds;
  std::printf(
      "%d threads on %d cores (16 asked for, or 4 a core), %.1f million records/s wanted, %.1f reached for %.1f s: %s "
      "written, %s read, %s lost\n",
      threads, cores, rate / 1e6, achieved / 1e6, m.seconds, humanCount(m.written).c_str(), humanCount(m.read).c_str(),
      humanCount(m.lost).c_str());
  if (m.read + m.lost != m.written)
    std::printf("%lld records neither read nor counted as lost\n", static_cast<long long>(m.written - m.read - m.lost));
  if (std::string out = option(argc, argv, "--json", ""); !out.empty()) {
    std::string json;
    JsonWriter w(json);
    w.beginObject()
        .field("record_ns", s.record.median)
        .field("record_ns_p10", s.record.low)
        .field("record_ns_p90", s.record.high);
    w.field("memcpy64_ns", s.copy.median)
        .field("clock_ns", s.clock.median)
        .field("record_with_clock_ns", s.with_clock.median)
        .field("record_followed_ns", s.followed.median);
    w.field("threads", threads)
        .field("cores", cores)
        .field("records_per_s_wanted", rate)
        .field("records_per_s", achieved);
    w.field("written", m.written).field("read", m.read).field("lost", m.lost).endObject();
    if (Result<File> f = File::create(out); !f || !f->write(json + "\n")) return 1;
  }
  return m.read + m.lost == m.written ? 0 : 1;
}
