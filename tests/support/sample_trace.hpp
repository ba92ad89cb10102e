// A small trace with a bit of everything, for tests of commands that read traces: two nodes with one rank each, three
// steps, launches with their kernels, copies, collectives, counters, flows, losses, and names that break careless code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tracesmith::test {

/// First ns of the sample: rank 0's step 0.
constexpr int64_t kSampleStart = 1'700'000'000'000'000'000;
constexpr int kSampleRanks = 2;  ///< rank r is on node "node-a" or "node-b", pid 4000 + r, GPU r
constexpr int64_t kSamplePid = 4000;
constexpr int64_t kSampleStepNs = 1'000'000;  ///< from one step to the next; rank 1's clock is 1 µs ahead

struct SampleOptions {
  int steps = 3;
  uint32_t block_rows = 32768;
  bool close = true;    ///< false: as a killed writer leaves it
  bool hostile = true;  ///< one kernel for each of hostileNames(), by rank 0
};

/// Rows of the tables a sample has most of.
struct SampleCounts {
  uint64_t events, kernels, copies, launches, collectives, flows, steps, metrics, counters;
};

/// A time of one of its ranks on the reference clock, by the rows of `clocks` it has.
int64_t sampleReference(int rank, int64_t ts);

/// Writes the sample to `path`. Fails the calling test if it cannot.
SampleCounts writeSampleTrace(const std::string& path, const SampleOptions& options = {});

/// Quotes, commas, control characters, broken UTF-8, very long templates, …
const std::vector<std::string>& hostileNames();

/// Flips one bit in the payload of the `nth` block of a table, so that its checksum is wrong. False if there is none.
bool damageBlock(const std::string& path, const std::string& table, size_t nth = 0);

}  // namespace tracesmith::test
