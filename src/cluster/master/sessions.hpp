// Named sessions: intervals of the one stored stream. A session is a small file; its data is the store's.
//
//   sessions/<id>            "key value" lines
//   sessions/<id>.deleted    the same of a deleted one that still has data
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Thread safe. Every change is on disk when the call returns, unless it says why not.
class Sessions {
 public:
  Status open(const std::string& folder);

  /// Fails if a session of that name records already. An empty name is made up.
  Result<SessionRecord> start(const StartOptions& options, int64_t start_ns, int64_t end_ns,
                              const std::vector<std::string>& nodes);
  /// Empty name: all that record, also those that would end later by themselves. Fails if none does.
  Result<std::vector<SessionRecord>> stop(const std::string& name, int64_t end_ns);
  Result<SessionRecord> resume(const std::string& name_or_id, int64_t now_ns);
  /// Fails if it records, or if several have that name. It is one of deleted() from then on, until forget().
  Result<SessionRecord> remove(const std::string& name_or_id, int64_t now_ns);
  /// Those that were deleted and may still have data.
  std::vector<SessionRecord> deleted() const;
  void forget(const std::string& deleted_id);
  /// The newest of that name, or the one with that id.
  Result<SessionRecord> find(const std::string& name_or_id) const;
  std::vector<SessionRecord> all() const;
  /// Changes one and writes it. If that fails the change holds all the same, and is written later.
  template <typename F>
  Status change(const std::string& id, F f) {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return Status::notFound("there is no session " + id);
    f(it->second);
    Status status = write(it->second);
    if (!status) unwritten_.insert(id);
    return status;
  }
  /// What change() could not write.
  Status writeUnwritten();

 private:
  Status write(const SessionRecord& session) const;
  static Result<SessionRecord> read(const std::string& path);

  std::string folder_;
  mutable std::mutex mutex_;                       // guards what follows
  std::map<std::string, SessionRecord> sessions_;  // by id
  std::map<std::string, SessionRecord> deleted_;   // by id
  std::set<std::string> unwritten_;                // their ids
};

}  // namespace tracesmith::cluster
