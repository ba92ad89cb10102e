// The buffers CUPTI fills with records. CUPTI asks for them and hands them over on the job's threads: nothing here
// locks.
#pragma once

#include "capture/probe/cupti_abi.hpp"

namespace tracesmith::probe {

/// A buffer while it waits in one of the two lists; its bytes follow.
struct alignas(64) Buffer {
  Buffer* next;         // of the full ones
  size_t valid;         // bytes of records in it
  uint32_t index;       // of all buffers
  uint32_t below_free;  // in the list of free ones
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(this + 1); }
};

/// Makes the first ones, touched before the job needs them. TRACESMITH_CUPTI_MB and TRACESMITH_CUPTI_BUFFER_KB say how
/// many there may be, and how large.
void prepareBuffers(uint32_t cupti_version);
/// For cuptiActivityRegisterCallbacks.
void requestBuffer(uint8_t** buffer, size_t* size, size_t* max_records);
void completeBuffer(void* context, uint32_t stream, uint8_t* bytes, size_t size, size_t valid);
/// Buffers that are not ours belong to the profiler we stepped aside for.
void passOtherBuffersTo(cupti::BufferCompleted other);

/// Those handed over since the last call, oldest first, linked by `next`.
Buffer* takeFullBuffers();
void freeBuffer(Buffer* buffer);

}  // namespace tracesmith::probe
