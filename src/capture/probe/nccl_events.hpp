// GPU times of NCCL's operations without CUPTI: two CUDA events around each launch, on its stream. Only where
// TRACESMITH_NCCL_TIMES=events asks for it: it costs some µs of host time an operation.
//
// Events are made once and used again. The job's threads only record them; whether they are over our own thread asks,
// later, and never waits. No event goes into a stream that is being captured into a graph.
//
// An event's time is the GPU's. Our thread records an event on a stream of its own from time to time, and sees it come
// between two readings of our clock: half of what lies between them is the error, and it is told with each time.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

bool eventsAsked();

/// A launch begins on a stream. 0: it is not timed, because CUPTI records it, the stream is being captured, or nobody
/// asked.
uint32_t beginEvents(RingWriter& r, void* stream, bool captured);
/// It was launched. Its number, with which its times come in a record of their own; 0: none will.
uint32_t endEvents(uint32_t pair, void* stream);

/// Writes the times of launches that are over. For the probe's own thread, and (last) for the exit handler.
void pollEvents(RingWriter& r, bool last = false);
/// Host time that recording events has taken so far.
uint64_t eventsNs();
/// They cost more than the budget: from now on none is recorded.
void stopEvents();
/// For the child of a fork: the events are the parent's.
void forgetEvents();

}  // namespace tracesmith::probe
