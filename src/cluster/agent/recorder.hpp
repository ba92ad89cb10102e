// The agent's recording side: one thread that takes records from the rings of the node's processes and telemetry, and
// puts them into the spool while somebody captures.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "capture/collect/collector.hpp"
#include "capture/ring/folders.hpp"
#include "cluster/agent/agent_summary.hpp"
#include "cluster/agent/asked_stacks.hpp"
#include "cluster/agent/clock_keeper.hpp"
#include "cluster/agent/spool.hpp"
#include "model/travel.hpp"

namespace tracesmith::cluster {

using model::CaptureSpan;

/// What else a node has to tell: its devices, and telemetry. Called by the recorder's thread only.
struct NodeSource {
  virtual ~NodeSource() = default;
  /// Samples are wanted this often from now on; 0: none.
  virtual void watch(uint32_t freq_ms) = 0;
  /// A segment begins: what describes the node is wanted again.
  virtual void newSegment() = 0;
  /// Appends what was sampled since; returns how many rows.
  virtual Result<size_t> take(trace::Writer& writer, trace::Appender& out) = 0;
};

struct RecorderOptions {
  std::string node;
  std::string ring_folder;
  std::vector<std::string> ring_roots;  ///< of the folders of all users, where this agent is root
  int64_t keep_dead_ns = 600'000'000'000;
  std::string captures_file;  ///< keeps the captures for the next run
  uint32_t freq_ms = 500;
  uint64_t segment_bytes = 32u << 20;
  int tick_ms = 20;  ///< between two looks at the rings while recording, less where they fill fast
};

struct RecorderStats {
  uint32_t processes = 0, captures = 0;
  uint64_t records = 0, losses = 0;
  std::string problem;
};

class Recorder {
 public:
  /// `asked`: outlives this.
  Recorder(RecorderOptions options, Spool& spool, const ClockKeeper& clock, std::unique_ptr<NodeSource> source,
           AskedStacks* asked = nullptr);
  /// Stops after a last checkpoint. Captures go on with the next run.
  ~Recorder();

  /// All captures there are. From any thread.
  void setCaptures(std::vector<CaptureSpan> captures);
  /// One that no master asked for; empty id: none. Not kept for the next run.
  void setLocalCapture(const CaptureSpan& capture);
  /// Whether all of a capture that has ended is in the spool.
  bool done(const CaptureSpan& capture) const;
  RecorderStats stats() const;

 private:
  void loop();
  Status tick();
  int64_t begins(const CaptureSpan& capture, const sync::ClockModel& clock) const;
  int64_t ends(const CaptureSpan& capture, const sync::ClockModel& clock) const;
  struct Wanted {
    bool whole = false, summary = false;  // what captures keep that go on or wait for their last checkpoint
    int64_t since_raw = INT64_MAX;
    size_t ended = 0;                       // how many of them wait
    int64_t end_raw = INT64_MIN;            // the last moment of those
    bool last = true, last_summary = true;  // none goes on; none that keeps a summary
  };
  Wanted wanted(int64_t raw_ns);
  Status beginSegment();
  Status nextSegment();
  Status checkpoint(bool sum_up = true);
  void drop();
  Status end();
  void fail(const Status& status);
  void followRings();
  void clockRow(bool always);
  std::vector<CaptureSpan> allCaptures() const;
  void saveCaptures() const;
  void loadCaptures();

  const RecorderOptions options_;
  Spool& spool_;
  const ClockKeeper& clock_;
  std::unique_ptr<NodeSource> source_;
  AskedStacks* const asked_;

  // of the thread
  ring::RingFolders folders_;
  std::unique_ptr<AgentSummary> summary_;  // nullptr: nobody wants one
  std::unique_ptr<capture::Collector> collector_;
  std::unique_ptr<trace::Appender> out_;
  int64_t node_id_ = 0;
  sync::ClockModel written_clock_;
  Wanted want_;
  std::string state_, summary_state_;  // at the last checkpoint
  int64_t covered_raw_ = 0;            // by it
  bool dirty_ = false;                 // rows since the last checkpoint
  size_t settled_ = 0;                 // captures that have ended, of want_.ended
  int pause_ms_ = 0;                   // until the next look at the rings
  int64_t taken_raw_ = 0, checkpoint_raw_ = 0, segment_raw_ = 0, rings_raw_ = 0, retry_raw_ = 0, forgotten_raw_ = 0;
  uint64_t records_ = 0, losses_ = 0;  // of collectors that are gone
  std::vector<std::string> ended_rings_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<CaptureSpan> captures_;
  CaptureSpan local_;
  std::set<std::string> done_;  // captures that are complete here
  RecorderStats stats_;
  bool stop_ = false, woken_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
