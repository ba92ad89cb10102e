// Any bytes as a dump of torch's flight recorder. What is imported must read back without damage.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trace/import/flight_import.hpp"
#include "tracesmith/trace/reader.hpp"

using namespace tracesmith;
using namespace tracesmith::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = ::memfd_create("dump", 0);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) __builtin_trap();
  Result<File> file = File::openRead("/proc/self/fd/" + std::to_string(fd));
  static const std::string out = "/proc/self/fd/" + std::to_string(::memfd_create("out", 0));
  Result<std::unique_ptr<Writer>> writer = Writer::create(out);
  if (!file || !writer) __builtin_trap();
  RowSink::Options sink;
  sink.thread = false;
  if (!importFlight(*file, **writer, sink, 1, "", {})) return 0;
  if (!(*writer)->close()) __builtin_trap();
  Result<std::unique_ptr<Reader>> reader = Reader::open(out);
  if (!reader || !(*reader)->closed() || !(*reader)->verify() || !(*reader)->damage().empty()) __builtin_trap();
  return 0;
}
