// Scenarios of fake_nccl with CUDA graphs and copy engines.
#pragma once

namespace tracesmith::fake {

/// Captured collectives, sends and receives, replayed with others in between; a graph that is never launched; one that
/// takes the handles of another.
void replays(bool proxy);
/// The third replay of a graph does not end, nor does the first of another.
void replayHangs();
void copyEngines(int version);

}  // namespace tracesmith::fake
