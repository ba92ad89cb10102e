// The other side of the stand-in for libcupti: what the "GPU" and the "driver" tell it. Real CUPTI learns the same from
// libcuda.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::fake {

/// Something a GPU or a CUDA call did. Times are in the clock of Driver::now.
struct Work {
  const char* name = nullptr;
  uint64_t start = 0, end = 0;
  uint32_t device = 0, context = 1, stream = 7, correlation = 0;
  uint32_t graph = 0;
  uint64_t graph_node = 0, bytes = 0;
  uint8_t copy_kind = 1, from = 1, to = 3;  // of a copy: host to device, pageable to device
  uint32_t peer = 0;                        // device a peer copy goes to
  uint32_t cbid = 0, thread = 0;            // of a call
  uint32_t type = 0;                        // of a synchronisation or overhead
  int32_t grid[3] = {1, 1, 1}, block[3] = {32, 1, 1};
};

/// What became of a record.
enum Fate : int { kOff = 0, kKept = 1, kNoBuffer = 2 };

struct Driver {
  uint64_t (*now)();
  int (*enabled)(uint32_t kind);
  Fate (*kernel)(const Work&);
  Fate (*memcpy)(const Work&);
  Fate (*peer)(const Work&);
  Fate (*memset)(const Work&);
  Fate (*runtime)(const Work&);
  Fate (*driver)(const Work&);
  Fate (*sync)(const Work&);
  Fate (*overhead)(const Work&);
  Fate (*graph)(const Work&);
  Fate (*unknown)(uint32_t kind);
  void (*drop)(size_t count);  ///< CUPTI itself loses records
  /// Buffers asked for and given back so far.
  void (*buffers)(size_t* requested, size_t* completed);
  size_t (*clocks)();  ///< registrations of a timestamp callback
};

}  // namespace tracesmith::fake

/// Exported by the stand-in.
extern "C" const tracesmith::fake::Driver* fakeCuptiDriver();
