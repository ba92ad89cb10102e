// What an agent knew when it was killed, as any bytes: the state of a collector, restored over a ring that is there.
#include <cstring>

#include "capture/collect/collector.hpp"
#include "capture/ring/writer.hpp"
#include "support/fuzz_scratch.hpp"
#include "tracesmith/trace/writer.hpp"

using namespace tracesmith;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = test::scratch("ring");
  static ring::RingWriter* const ring = [] {
    const ring::RingOptions small{.lane0_records = 64, .lane_records = 64, .lanes = 2, .strings_bytes = 4096};
    ring::RingWriter* made = ring::RingWriter::create(path.c_str(), small);
    if (made) {
      made->header().state = ring::State::alive;
      const uint32_t lane = made->addLane(1);
      made->writeLane(lane, encode(ring::LaunchRecord{.start = 10, .end = 20, .stream = 7, .number = 1}));
      made->writeLane(lane, encode(ring::OperationRecord{.function = made->intern("AllReduce"), .start = 15}));
    }
    return made;
  }();
  if (!ring) return 0;
  auto writer = trace::Writer::create(test::scratch("sbt"));
  if (!writer) return 0;
  capture::Collector collector(**writer, "node");
  // Version, time and one process; its ring by path and start; the rest is the input.
  std::string state = collector.state().substr(0, 12);
  auto put = [&](uint64_t v) { state.append(reinterpret_cast<const char*>(&v), sizeof v); };
  put(1);
  put(path.size());
  state += path;
  put(ring->header().start_ns);
  state.append(reinterpret_cast<const char*>(data), size);
  collector.restore(state);
  (void)collector.take();
  (void)collector.state();
  collector.settle();
  (void)collector.describe();
  (void)collector.finish();
  return 0;
}
