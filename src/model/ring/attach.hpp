// What `tracesmith attach` hands to the probe that it has brought into a process.
#pragma once

#include "model/ring/layout.hpp"

namespace tracesmith::ring {

struct AttachRequest {
  uint32_t version;    // kVersion
  uint32_t mode;       // of RingHeader::mode
  char folder[400];    // for the ring
  char library[4096];  // the probe's own file, as the process sees it
};

}  // namespace tracesmith::ring
