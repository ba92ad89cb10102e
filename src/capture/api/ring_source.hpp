// The rings of a platform, read by the process that has them: the probe's own ring (cuda), or those of a simulated job.
// Reading does not consume: several readers, in this process and others, do not disturb each other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture/ring/reader.hpp"
#include "tracesmith/capture/profiler.hpp"

namespace tracesmith::capture {

class RingSource {
 public:
  /// Loads the probe, or joins the process's simulated job (the first source decides its config). `wants`: bits of
  /// ring::Want, what to record in addition.
  static Result<std::unique_ptr<RingSource>> open(PlatformType platform, const ProfilerConfig& config,
                                                  uint32_t wants = 0);
  /// Makes the probe NCCL's profiler plugin for communicators made from now on.
  static Status hookNccl();
  ~RingSource();

  /// Recording goes on while any source of the process wants it.
  void setRecording(bool on);
  bool recording() const { return recording_; }
  /// Whoever is attached to the rings belongs to this source, and does not keep them recording.
  void ownReader() { own_reader_ = true; }
  /// The files of the rings.
  const std::vector<std::string>& paths() const;

  using Visit = std::function<void(size_t ring, uint32_t lane, const ring::Record&)>;
  /// New records from the time in which this source records, in the order of each lane.
  size_t poll(const Visit& visit);
  std::string_view string(size_t ring, uint32_t id) const { return rings_[ring].reader->string(id); }
  std::string text(size_t ring, const ring::Name& name) const { return rings_[ring].reader->text(name); }
  const ring::RingHeader& header(size_t ring) const { return rings_[ring].reader->header(); }
  size_t rings() const { return rings_.size(); }
  bool simulated() const { return platform_ == PlatformType::Sim; }
  /// Records lost since this source was opened, for any reason.
  uint64_t lost() const;

 private:
  struct Shared;
  struct Ring {
    std::unique_ptr<ring::RingReader> reader;
    ring::Cursors cursors;
    uint64_t lost_before = 0;
  };
  static std::shared_ptr<Shared> shared(PlatformType platform, const ProfilerConfig& config, Status& status);
  void waitForProbe(uint64_t since_ns) const;

  PlatformType platform_ = PlatformType::Unknown;
  std::shared_ptr<Shared> shared_;
  std::vector<Ring> rings_;
  uint32_t wants_ = 0;
  bool recording_ = false, own_reader_ = false;
  uint64_t from_ns_ = 0, to_ns_ = 0;  // what it records, raw clock; 0…0: nothing yet
};

/// Path of libtracesmith_probe.so: $TRACESMITH_PROBE, or as installedFile() finds it.
Result<std::string> findProbe();

}  // namespace tracesmith::capture
