// A process with a ring that counts: record k is a counter with the value k. What is missing or doubled shows.
//   numbered_job FOLDER COUNT PER_SECOND [RING_RECORDS [TRUTH]]
// PER_SECOND 0: as fast as a reader makes room, so that nothing is lost, and nothing before there is one.
// TRUTH gets the time of each record on the machine's own raw clock, 8 bytes each, whatever clock this process is made
// to see; SIGTERM ends the job in good order then.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "capture/ring/writer.hpp"

using namespace tracesmith::ring;

static uint64_t trueNs() {
  timespec t{};
  ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

/// Our clock and the true one, read within 5 µs of each other: a thread that loses the CPU in between tries again.
struct Both {
  uint64_t ours, truth;
};
static Both readBoth() {
  uint64_t before, ours, after;
  do {
    before = trueNs();
    ours = nowNs();
    after = trueNs();
  } while (after - before > 5000);
  return {ours, before + (after - before) / 2};
}

static volatile std::sig_atomic_t g_stop = 0;

static Record numbered(uint64_t k, uint32_t name, uint64_t time) {
  return encode(CounterRecord{.name = name, .start = time, .value = static_cast<double>(k)});
}

static void writeWhenRead(RingWriter& ring, uint64_t count, uint32_t name) {
  auto wait = [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); };
  while (ring.header().reader == 0) wait();
  const uint32_t lane = ring.lane();
  for (uint64_t k = 0; k < count; ++k) {
    while (ring.fullLane(lane)) wait();
    ring.write(numbered(k, name, nowNs()));
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const uint64_t count = std::strtoull(argv[2], nullptr, 10), per_second = std::strtoull(argv[3], nullptr, 10);
  RingOptions options;
  options.lane0_records = 64;  // nobody writes to it
  options.lane_records = static_cast<uint32_t>(argc > 4 ? std::atoi(argv[4]) : 1 << 20);
  options.lanes = 2;
  char path[512];
  std::snprintf(path, sizeof path, "%s/%d.%llu.ring", argv[1], ::getpid(), static_cast<unsigned long long>(nowNs()));
  RingWriter* ring = RingWriter::create(path, options);
  if (!ring) return 1;
  std::snprintf(ring->header().command, sizeof ring->header().command, "numbered_job");
  ring->header().recording = 1;
  ring->header().rank = 0;
  ring->header().state = State::alive;
  const uint32_t name = ring->intern("number");
  const char* truth_file = argc > 5 ? argv[5] : nullptr;
  std::vector<uint64_t> truth;
  std::printf("ready\n");
  std::fflush(stdout);
  if (per_second == 0) {
    writeWhenRead(*ring, count, name);
    ring->header().state = State::ended;
    return 0;
  }
  if (truth_file) std::signal(SIGTERM, [](int) { g_stop = 1; });
  Both last = truth_file ? readBoth() : Both{};
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t k = 0; k < count && !g_stop;) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const auto due = static_cast<uint64_t>(elapsed * static_cast<double>(per_second));
    const Both now = truth_file ? readBoth() : Both{};
    const uint64_t first = k, last_due = std::min(count, due);
    for (; k < last_due; ++k) {
      if (!truth_file) {
        ring->write(numbered(k, name, nowNs()));
        continue;
      }
      // Evenly over the time since the last look: both clocks run straight.
      const uint64_t i = k - first + 1, n = last_due - first;
      ring->write(numbered(k, name, last.ours + (now.ours - last.ours) * i / n));
      truth.push_back(last.truth + (now.truth - last.truth) * i / n);
    }
    if (k > first) last = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (truth_file) {
    std::FILE* out = std::fopen(truth_file, "wb");
    if (!out || std::fwrite(truth.data(), 8, truth.size(), out) != truth.size() || std::fclose(out) != 0) return 1;
  }
  ring->header().state = State::ended;
  return 0;
}
