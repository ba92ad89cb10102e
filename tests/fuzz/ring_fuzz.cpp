// The reader of rings on any bytes, and the collector that makes rows of their records. The first byte says whether the
// header is made right as far as it is checked, so that the fuzzer comes further.
#include "support/fuzz_scratch.hpp"

#include <cstring>

#include "capture/collect/collector.hpp"
#include "capture/collect/in_flight.hpp"
#include "tracesmith/trace/writer.hpp"

using namespace tracesmith;

namespace {

void mend(std::string& file) {
  if (file.size() < 4096) file.resize(4096);
  uint64_t bytes = file.size();
  uint32_t record_bytes = sizeof(ring::Record);
  std::memcpy(file.data() + offsetof(ring::RingHeader, magic), &ring::kMagic, sizeof ring::kMagic);
  std::memcpy(file.data() + offsetof(ring::RingHeader, version), &ring::kVersion, sizeof ring::kVersion);
  std::memcpy(file.data() + offsetof(ring::RingHeader, record_bytes), &record_bytes, sizeof record_bytes);
  std::memcpy(file.data() + offsetof(ring::RingHeader, file_bytes), &bytes, sizeof bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) mend(file);
  const std::string path = test::scratch("ring");
  test::writeScratch(path, file);
  {
    auto reader = ring::RingReader::open(path);
    if (!reader) return 0;
    (*reader)->snapshot([&](uint32_t, const ring::Record& r) { (void)(*reader)->string(r.name); });
    (void)(*reader)->alive();
    (void)(*reader)->attachedReader();
    (void)(*reader)->process();
    std::vector<std::unique_ptr<ring::RingReader>> all;
    all.push_back(std::move(*reader));
    (void)capture::operationsInFlight(all);
  }
  auto writer = trace::Writer::create(test::scratch("sbt"));
  if (!writer) return 0;
  std::string state;
  {
    capture::Collector collector(**writer, "node");
    if (!collector.follow(path, true)) return 0;
    (void)collector.take();
    state = collector.state();
    collector.leaveAttached();
  }
  capture::Collector again(**writer, "node");
  again.restore(state);
  (void)again.take();
  (void)again.describe();
  again.release();
  (void)again.dropEnded();
  (void)again.finish();
  return 0;
}
