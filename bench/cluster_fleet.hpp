// Many nodes on one machine, for cluster_bench: agents made of the product's own parts (rings, Recorder, Spool, clock,
// connection), several in a process, each with its own rings, folder and connection; and jobs that write numbered
// events into the rings, so that what is missing or doubled shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tracesmith::bench {

/// Devices of a node; metrics of each that are sampled every time.
constexpr int kFleetGpus = 8, kFleetMetrics = 8;

std::string fleetNode(int index);

/// Says what is wrong and ends the process.
[[noreturn]] void giveUp(const std::string& what);

struct FleetOptions {
  int first = 0, nodes = 8;  ///< nodes first … first + nodes − 1
  int ranks = 8;             ///< rings a node
  uint32_t ring_records = 1u << 13;
  int tick_ms = 20;  ///< of the agents, between two looks at the rings
  std::string master, folder;
};

/// A process with agents and their jobs. Ends with its owner.
class Fleet {
 public:
  explicit Fleet(const FleetOptions& options);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// Returns when all rings are there.
  void waitReady();
  /// Events a second of all its rings together, from now on; 0: none.
  void rate(double per_second);
  /// Every ring up to this many events in all, as fast as the agents take them; returns when they are written.
  void fill(uint64_t per_ring);
  struct Written {
    std::vector<uint64_t> events;  ///< by node and rank
    uint64_t lost = 0, late = 0;   ///< that rings had no room for; that were due and could not be written in time
    double cpu_s = 0, job_cpu_s = 0;
  };
  /// Stops the jobs.
  Written stop();
  int pid() const { return pid_; }

 private:
  std::string ask(const std::string& line);
  int pid_ = -1, to_ = -1, from_ = -1;
  std::string rest_;
};

/// main() of such a process.
int fleetMain(int argc, char** argv);

}  // namespace tracesmith::bench
