// Writes the frames of sessions that end, as gswarm does: NAME.json in a folder.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "server/sources/cluster_view.hpp"

namespace tracesmith::server {

/// Looks at the sessions of the master on a thread of its own. Those that had ended before are not written.
/// A session is written when all its nodes have delivered, or half a minute after its end. Thread safe.
class FramesWriter {
 public:
  FramesWriter(ClusterView& cluster, std::string folder);
  ~FramesWriter();
  FramesWriter(const FramesWriter&) = delete;
  FramesWriter& operator=(const FramesWriter&) = delete;

  /// Where the frames of a session are, or will be if no file of that name is there by then. Absent: they are not
  /// written, because the session had ended before, or because writing them failed.
  std::optional<std::string> fileOf(const cluster::SessionInfo& session) const;

 private:
  void run();
  void look();
  void write(const cluster::SessionInfo& session);

  ClusterView& cluster_;
  const std::string folder_;
  bool looked_ = false;                       // of the thread
  mutable std::mutex mutex_;                  // guards what follows
  std::map<std::string, std::string> files_;  // id → path
  std::set<std::string> left_;                // ids of sessions that are not written
  bool stop_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace tracesmith::server
