// Operations of NCCL that were captured into CUDA graphs. Each launch of a graph runs them once more: they are numbered
// then, as if the program had called them. All ranks launch the same graphs in the same order.
//
// Which graph a call is captured into the driver says; how graphs become executable and are launched is seen by
// standing before those functions of CUDA (graph_calls.cpp). A program that calls them past the dynamic linker (with
// CUDA's runtime linked statically) is not seen: its replays have no numbers.
#pragma once

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// Stands for a captured operation, long after its graph is gone. 0: none.
using CapturedId = uint64_t;

/// The program calls an operation that is captured into a graph on this stream. `comm`: for numberReplay(). 0 if the
/// driver does not say which graph, or there are too many.
CapturedId captureOperation(void* stream, void* comm, const ring::OperationRecord& operation, bool send);
/// NCCL captures a kernel on this stream: the operations of `comm` that have none yet are in it.
void captureKernel(void* stream, void* comm);

/// What NCCL has told of a captured operation.
enum class Told {
  unknown,   // its graph is gone, or was never launched where it could be seen
  launched,  // the launch of its graph counted it
  late,      // its launch could not count it: the peer was not known
};
/// NCCL tells of a captured operation: when it is captured (then the last kernel of the calling thread is its own), or
/// with a replay. What is told is remembered for the replays to come.
Told tellCaptured(CapturedId id, const ring::OperationRecord& operation);

/// The next number of an operation; nccl_comm.cpp knows.
uint64_t numberReplay(void* comm, const ring::OperationRecord& operation, bool send);

// What the program does with graphs. Handles are CUDA's.
void graphInstantiated(void* exec, void* graph);
void graphCopied(void* to, void* from);  ///< as a child of another, or as a whole
void graphDestroyed(void* graph);
void execDestroyed(void* exec);
/// Whether launches are to be told.
bool watchesGraphs();
/// It is about to be launched.
void graphLaunched(void* exec, void* stream);

}  // namespace tracesmith::probe
