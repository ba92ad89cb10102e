// The probe: what libtracesmith_probe.so does inside a rank's process. Roles (each in its own file) share one ring.
// Nothing here blocks, throws, prints unless asked, or allocates on a hot path; what goes wrong turns the probe
// off.
#pragma once

#include "capture/ring/writer.hpp"

#define TS_EXPORT extern "C" __attribute__((visibility("default")))

namespace tracesmith::probe {

using ring::Record;
using ring::RingWriter;

enum class Mode : uint32_t { light = 0, standard = 1, full = 2, watch = 3 };

/// The ring of this process, made on first use; nullptr if the probe is off (no TRACESMITH_DIR, an error, a forked
/// child that did nothing yet). Cheap after the first call.
RingWriter* ringOrNull();
/// The same, but starts a ring in a forked child too. For entry points that begin something: CUDA, NCCL.
RingWriter* startRing();
/// A thread that sleeps until somebody wants the stacks of this process. `ring`: the file.
void serveStacks(const char* ring);

/// For a process that was started without the probe: where its ring goes, instead of TRACESMITH_DIR and
/// TRACESMITH_MODE.
void useFolder(const char* folder, Mode mode);

bool recording(RingWriter& r);
Mode mode(const RingWriter& r);
/// Whether TRACESMITH_PROXY asks for proxy events.
bool wantsProxy();
/// Whether TRACESMITH_GRAPH_NODES asks for the kernels inside CUDA graphs.
bool wantsGraphNodes();

/// Takes rank, world size and local rank from the environment, where launchers put them.
void readRank(RingWriter& r);
/// One line in the ring's header for people: why something is off. With TRACESMITH_DEBUG also on stderr.
void note(RingWriter& r, const char* text);

/// A nested range of the calling thread: begin and end as NVTX push and pop, and tracesmith.h. Domains are string ids.
/// Both return how many the thread has open then; popRange -1 if there was none.
int pushRange(RingWriter& r, const ring::Name& name, uint32_t domain);
int popRange(RingWriter& r, uint32_t domain);

/// CUPTI: called once a process has CUDA. `late`: it has used it for a while.
void startCuda(RingWriter& r, bool late = false);
/// Flushes and ends the ring when the process ends. Handlers run last in, first out: called again for each library that
/// must still be whole then.
void flushAtExit();
/// Called by the atexit handler: last flush.
void stopCuda(RingWriter& r);
/// For the child of a fork: CUPTI is the parent's.
void forgetCuda();
/// CUPTI's id of a stream of the current context; 0 if it cannot be had.
uint32_t streamId(void* stream);

}  // namespace tracesmith::probe
