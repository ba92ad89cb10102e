// A process with a ring that counts: record k is a counter with the value k. What is missing or doubled shows.
//   numbered_job FOLDER COUNT PER_SECOND [RING_RECORDS]
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "capture/ring/writer.hpp"

using namespace tracesmith::ring;

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const uint64_t count = std::strtoull(argv[2], nullptr, 10), per_second = std::strtoull(argv[3], nullptr, 10);
  RingOptions options;
  options.lane0_records = 1024;
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
  std::printf("ready\n");
  std::fflush(stdout);
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t k = 0; k < count;) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const auto due = static_cast<uint64_t>(elapsed * static_cast<double>(per_second));
    for (; k < count && k < due; ++k) {
      Record r{};
      r.kind = Kind::counter;
      r.name = name;
      r.start = r.end = nowNs();
      r.arg[0] = std::bit_cast<uint64_t>(static_cast<double>(k));
      ring->write(r);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ring->header().state = State::ended;
  return 0;
}
