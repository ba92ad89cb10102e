// Named sessions: intervals of the one stored stream. A session is a small file; its data is the store's.
//
//   sessions/<id>    "key value" lines
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

/// Thread safe. Every change is on disk when the call returns.
class Sessions {
 public:
  Status open(const std::string& folder);

  /// Fails if a session of that name records already. An empty name is made up.
  Result<SessionRecord> start(const StartOptions& options, int64_t start_ns, int64_t end_ns,
                              const std::vector<std::string>& nodes);
  /// Empty name: all that record. Fails if none does.
  Result<std::vector<SessionRecord>> stop(const std::string& name, int64_t end_ns);
  Result<SessionRecord> resume(const std::string& name_or_id, int64_t now_ns);
  /// The newest of that name, or the one with that id.
  Result<SessionRecord> find(const std::string& name_or_id) const;
  std::vector<SessionRecord> all() const;
  /// Changes one and writes it.
  template <typename F>
  Status change(const std::string& id, F f) {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return Status::notFound("there is no session " + id);
    f(it->second);
    return write(it->second);
  }

 private:
  Status write(const SessionRecord& session) const;
  static Result<SessionRecord> read(const std::string& path);

  std::string folder_;
  mutable std::mutex mutex_;                       // guards sessions_
  std::map<std::string, SessionRecord> sessions_;  // by id
};

}  // namespace tracesmith::cluster
