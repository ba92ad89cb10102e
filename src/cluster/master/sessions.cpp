#include "cluster/master/sessions.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "access/names.hpp"
#include "base/file.hpp"
#include "model/travel_lines.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

namespace {
constexpr const char* kDeleted = ".deleted";
}

Status Sessions::open(const std::string& folder) {
  folder_ = folder + "/sessions";
  std::error_code error;
  TS_TRY(makePrivateFolder(folder_));
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const bool deleted = entry.path().extension() == kDeleted;
    if (entry.path().has_extension() && !deleted) continue;  // a half-written one
    Result<SessionRecord> session = read(entry.path());
    if (!session) return session.status();
    (deleted ? deleted_ : sessions_)[session->id] = *session;
  }
  return {};
}

Result<SessionRecord> Sessions::read(const std::string& path) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  SessionRecord s;
  model::fromLines(text, s);
  if (!access::checkName("session id", s.id) || !access::checkName("session", s.name) || s.start_ns == 0)
    return Status::corrupt(path + " is damaged: remove it, or restore it from a backup");
  return s;
}

Status Sessions::write(const SessionRecord& s) const {
  Result<OutputFile> out = OutputFile::create(folder_ + "/" + s.id);
  if (!out) return out.status();
  TS_TRY(out->write(model::toLines(s)));
  return out->commitDurably();
}

Result<SessionRecord> Sessions::start(const StartOptions& options, int64_t start_ns, int64_t end_ns,
                                      const std::vector<std::string>& nodes) {
  SessionRecord s;
  s.id = access::randomHex(12);
  s.name = options.name.empty() ? "session-" + s.id.substr(0, 6) : options.name;
  TS_TRY(access::checkName("session", s.name));
  s.start_ns = start_ns;
  s.end_ns = end_ns;
  s.freq_ms = options.freq_ms;
  s.max_bytes = options.max_bytes;
  s.max_age_s = options.max_age_s;
  s.keep = options.keep;
  s.nodes = nodes;
  std::lock_guard lock(mutex_);
  for (const auto& [id, other] : sessions_)
    if (other.name == s.name && other.end_ns == 0)
      return Status::invalid("session " + s.name + " is already recording");
  TS_TRY(write(s));
  sessions_[s.id] = s;
  return s;
}

Result<std::vector<SessionRecord>> Sessions::stop(const std::string& name, int64_t end_ns) {
  std::lock_guard lock(mutex_);
  std::vector<SessionRecord> stopped;
  bool known = false;
  for (auto& [id, s] : sessions_) {
    if (!name.empty() && s.name != name && s.id != name) continue;
    known = true;
    if (s.end_ns != 0 && s.end_ns <= end_ns) continue;
    SessionRecord changed = s;
    changed.end_ns = end_ns;
    TS_TRY(write(changed));
    s = changed;
    stopped.push_back(s);
  }
  if (!stopped.empty()) return stopped;
  if (name.empty()) return Status::notFound("no session is recording");
  return known ? Status::invalid("session " + name + " is not recording")
               : Status::notFound("there is no session " + name);
}

Result<SessionRecord> Sessions::resume(const std::string& name_or_id, int64_t now_ns) {
  Result<SessionRecord> found = find(name_or_id);
  if (!found) return found.status();
  if (found->end_ns == 0) return found;  // it goes on by itself, whatever was restarted
  std::lock_guard lock(mutex_);
  SessionRecord& s = sessions_[found->id];
  SessionRecord changed = s;
  if (s.end_ns < now_ns) changed.pauses.push_back({s.end_ns, now_ns});
  changed.end_ns = 0;
  changed.complete = false;
  TS_TRY(write(changed));
  s = changed;
  return s;
}

Status Sessions::writeUnwritten() {
  std::lock_guard lock(mutex_);
  for (auto it = unwritten_.begin(); it != unwritten_.end(); it = unwritten_.erase(it)) TS_TRY(write(sessions_[*it]));
  return {};
}

Result<SessionRecord> Sessions::remove(const std::string& name_or_id, int64_t now_ns) {
  std::lock_guard lock(mutex_);
  auto found = sessions_.find(name_or_id);
  size_t named = 0;
  for (auto it = sessions_.begin(); found == sessions_.end() && it != sessions_.end(); ++it)
    named += it->second.name == name_or_id;
  if (named > 1)
    return Status::invalid(std::to_string(named) + " sessions are named " + name_or_id + ": give the id of one");
  for (auto it = sessions_.begin(); named == 1 && it != sessions_.end(); ++it)
    if (it->second.name == name_or_id) found = it;
  if (found == sessions_.end()) return Status::notFound("there is no session " + name_or_id);
  if (found->second.end_ns == 0 || found->second.end_ns > now_ns)
    return Status::invalid("session " + found->second.name + " is recording: stop it first");
  const std::string path = folder_ + "/" + found->first;
  std::error_code error;
  fs::rename(path, path + kDeleted, error);
  if (error) return Status::io("cannot remove " + path + ": " + error.message());
  TS_TRY(syncFolder(folder_));
  unwritten_.erase(found->first);
  const SessionRecord removed = std::move(found->second);
  sessions_.erase(found);
  deleted_[removed.id] = removed;
  return removed;
}

std::vector<SessionRecord> Sessions::deleted() const {
  std::lock_guard lock(mutex_);
  std::vector<SessionRecord> list;
  for (const auto& [id, s] : deleted_) list.push_back(s);
  return list;
}

void Sessions::forget(const std::string& deleted_id) {
  std::lock_guard lock(mutex_);
  if (deleted_.erase(deleted_id) > 0) ::unlink((folder_ + "/" + deleted_id + kDeleted).c_str());
}

Result<SessionRecord> Sessions::find(const std::string& name_or_id) const {
  std::lock_guard lock(mutex_);
  const SessionRecord* found = nullptr;
  for (const auto& [id, s] : sessions_)
    if (id == name_or_id || (s.name == name_or_id && (!found || found->start_ns < s.start_ns))) found = &s;
  if (!found) return Status::notFound("there is no session " + name_or_id);
  return *found;
}

std::vector<SessionRecord> Sessions::all() const {
  std::lock_guard lock(mutex_);
  std::vector<SessionRecord> list;
  for (const auto& [id, s] : sessions_) list.push_back(s);
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return list;
}

}  // namespace tracesmith::cluster
