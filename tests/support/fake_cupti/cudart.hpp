// CUDA's runtime as cudart.cpp plays it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::fake {
/// What to do when a graph is launched: which one was captured (from 1), CUPTI's number of the executable one, where.
using Launched = void (*)(uint32_t captured, uint32_t exec, void* stream);
}  // namespace tracesmith::fake

extern "C" {
void fakeOnGraphLaunch(tracesmith::fake::Launched launched);
int cudaStreamBeginCapture(void* stream, int mode);
int cudaStreamEndCapture(void* stream, void** graph);
int cudaGraphInstantiate(void** exec, void* graph, unsigned long long flags);
int cudaGraphLaunch(void* exec, void* stream);
int cudaGraphDestroy(void* graph);
int cudaGraphExecDestroy(void* exec);
}
