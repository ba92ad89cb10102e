// Where the rings of a node's processes are: one's own folder, and those of all users where it is root.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tracesmith::ring {

/// Of one thread.
class RingFolders {
 public:
  /// `own`: always looked into. `roots`: their tracesmith-<uid> too, each of the user it is named after and of nobody
  /// else; what is not is refused, and told once if `tell`.
  RingFolders(std::string own, std::vector<std::string> roots, bool tell = true);

  /// Where users' folders are for a process like this one: none unless it is root. $TRACESMITH_RING_ROOTS, else
  /// /dev/shm and /tmp. With $TRACESMITH_DIR there is one folder, whoever looks.
  static std::vector<std::string> rootsFromEnvironment();

  struct Folder {
    std::string path;
    uint32_t owner = 0;  ///< whose files may be in it
  };
  /// Those that are looked into.
  std::vector<Folder> folders();
  /// All rings there are, those in subfolders (`tracesmith run --flight`) too.
  std::vector<std::string> rings();
  /// Removes a ring of a folder of ours, if it still is one. Rings in subfolders are their maker's to remove.
  void remove(const std::string& ring) const;
  /// Removes rings whose process ended more than `keep_ns` ago and that nobody reads: a flight recorder that nobody
  /// asked in time.
  void removeForgotten(int64_t now_ns, int64_t keep_ns);

 private:
  bool good(const std::string& folder, uint32_t owner);

  const std::string own_;
  const std::vector<std::string> roots_;
  const bool tell_;
  std::set<std::string> refused_;              // told
  std::set<std::string> spares_;               // of the folders, as last seen
  std::map<std::string, int64_t> dead_since_;  // rings of processes that ended: when that was seen first
};

}  // namespace tracesmith::ring
