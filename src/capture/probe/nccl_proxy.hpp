// What NCCL's proxy thread sends and receives for the operations, and what it waits for. All calls for one
// proxy operation come from one thread, which does the network's work: they take no lock and allocate nothing.
#pragma once

#include "capture/probe/nccl_abi.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// Handle of a proxy operation that begins; 0 if too many are open.
uint64_t beginProxyOp(uint64_t comm, const nccl::ProxyOp& op);
/// Handle of one of its steps; 0 if there is no such operation.
uint64_t beginProxyStep(uint64_t op, int step);
/// The state of a step from now on: what it waits for. `bytes`: of the step, where NCCL reports them.
void setProxyStep(uint64_t step, int state, const size_t* bytes);
void endProxyStep(uint64_t step);
/// Writes the record.
void endProxyOp(RingWriter& r, uint64_t op);

}  // namespace tracesmith::probe
