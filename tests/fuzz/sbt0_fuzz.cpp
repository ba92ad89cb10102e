// Any bytes as an SBT v0.1 file. What is imported must read back without damage.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trace/import/sbt0_import.hpp"
#include "tracesmith/trace/reader.hpp"

using namespace tracesmith;
using namespace tracesmith::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = ::memfd_create("sbt0", 0);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) __builtin_trap();
  Result<File> file = File::openRead("/proc/self/fd/" + std::to_string(fd));
  WriterOptions writer_options;
  writer_options.block_rows = 16;
  static const std::string out = "/proc/self/fd/" + std::to_string(::memfd_create("out", 0));
  Result<std::unique_ptr<Writer>> writer = Writer::create(out, writer_options);
  if (!file || !writer) __builtin_trap();
  RowSink::Options sink;
  sink.thread = false;
  if (!importSbt0(*file, **writer, sink, kNull, "")) return 0;
  if (!(*writer)->close()) __builtin_trap();
  Result<std::unique_ptr<Reader>> reader = Reader::open(out);
  if (!reader || !(*reader)->closed() || !(*reader)->verify() || !(*reader)->damage().empty()) __builtin_trap();
  return 0;
}
