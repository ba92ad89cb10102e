// What the nodes of CUDA graphs were captured from. Kernels that a graph replays have no call of their own that
// launched them; CUPTI tells the id of their node. While a stream is captured, the program's hooks say what runs, and
// CUPTI tells of each node that is made, and of its copies in the executable graph: each is a record with its id and
// what ran then.
//
// CUPTI has one subscriber at a time: it is this one only while a graph is captured. Launches cost nothing.
#pragma once

#include "capture/probe/cupti_abi.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {

/// A capture begins; until as many have ended, nodes are recorded. False: another profiler has CUPTI, or it cannot.
bool captureBegins(RingWriter& r);
/// The graph that was captured has been instantiated, or thrown away.
void captureEnded();
/// What this thread captures from now on belongs to these. nullptr: to nothing.
void nameNodes(RingWriter& r, const char* modules, bool backward, const char* op, const char* shapes);

/// Another profiler wants to subscribe, or CUPTI ends.
void giveUpCaptures();
/// For the child of a fork.
void forgetCaptures();

/// CUPTI's functions; nullptr: it is not there, or another profiler has it.
const cupti::Functions* usableCupti();

}  // namespace tracesmith::probe
