#include "capture/ring/folders.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/text.hpp"
#include "capture/ring/reader.hpp"

namespace tracesmith::ring {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "tracesmith-";
constexpr size_t kMostRings = 512;  // of one user: each takes files and memory of the agent

}  // namespace

RingFolders::RingFolders(std::string own, std::vector<std::string> roots, bool tell)
    : own_(std::move(own)), roots_(std::move(roots)), tell_(tell) {}

std::vector<std::string> RingFolders::rootsFromEnvironment() {
  if (::geteuid() != 0) return {};
  if (const char* set = std::getenv("TRACESMITH_RING_ROOTS"); set && *set) {
    std::vector<std::string> roots;
    std::istringstream in(set);
    for (std::string root; std::getline(in, root, ':');)
      if (!root.empty()) roots.push_back(root);
    return roots;
  }
  if (const char* set = std::getenv("TRACESMITH_DIR"); set && *set) return {};
  return {"/dev/shm", "/tmp"};
}

/// /tmp is everybody's: a folder there may be a link to somewhere else, or somebody's who wants to be read as another.
bool RingFolders::good(const std::string& folder, uint32_t owner) {
  struct stat st;
  if (::lstat(folder.c_str(), &st) != 0) return false;
  const char* why = !S_ISDIR(st.st_mode)      ? "it is not a folder"
                    : st.st_uid != owner      ? "it belongs to another user"
                    : (st.st_mode & 022) != 0 ? "other users can write to it"
                                              : nullptr;
  if (!why) return true;
  if (refused_.insert(folder).second && tell_)
    std::fprintf(stderr, "tracesmith: rings in %s are not read: %s\n", folder.c_str(), why);
  return false;
}

std::vector<RingFolders::Folder> RingFolders::folders() {
  std::map<std::string, uint32_t> all = {{own_, ::geteuid()}};
  std::error_code ignored;
  for (const std::string& root : roots_)
    for (const auto& entry : fs::directory_iterator(root, ignored)) {
      const std::string name = entry.path().filename();
      int64_t uid;
      if (!name.starts_with(kPrefix) || !parseInt(name.substr(std::string_view(kPrefix).size()), uid)) continue;
      if (uid >= 0 && good(entry.path(), static_cast<uint32_t>(uid))) all[entry.path()] = static_cast<uint32_t>(uid);
    }
  std::vector<Folder> out;
  for (const auto& [path, owner] : all) out.push_back({path, owner});
  return out;
}

std::vector<std::string> RingFolders::rings() {
  std::error_code ignored;
  std::vector<std::string> found;
  spares_.clear();
  for (const auto& [folder, owner] : folders()) {
    if (std::string spare = spareOf(folder); !spare.empty()) spares_.insert(std::move(spare));
    const size_t before = found.size();
    std::vector<std::string> more = findRings(folder);
    found.insert(found.end(), more.begin(), more.end());
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.symlink_status(ignored).type() == fs::file_type::directory) {
        more = findRings(entry.path());
        found.insert(found.end(), more.begin(), more.end());
      }
    if (found.size() - before > kMostRings) {
      found.resize(before + kMostRings);
      if (refused_.insert(folder).second && tell_)
        std::fprintf(stderr, "tracesmith: of the rings in %s the first %zu are read\n", folder.c_str(), kMostRings);
    }
  }
  return found;
}

void RingFolders::remove(const std::string& ring) const {
  const fs::path path(ring);
  const fs::path folder = path.parent_path();
  const std::string name = folder.filename();
  const bool users = name.starts_with(kPrefix) && std::count(roots_.begin(), roots_.end(), folder.parent_path()) > 0;
  if (folder != own_ && !users && !spares_.contains(folder)) return;
  // By the folder itself: what its owner puts in its place meanwhile is not touched.
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat st;
  if (path.extension() == ".ring" && ::fstatat(fd, path.filename().c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISREG(st.st_mode))
    ::unlinkat(fd, path.filename().c_str(), 0);
  ::close(fd);
}

void RingFolders::removeForgotten(int64_t now_ns, int64_t keep_ns) {
  std::map<std::string, int64_t> dead;
  for (const std::string& path : rings()) {
    Result<std::unique_ptr<RingReader>> reader = RingReader::open(path);
    if (!reader || (*reader)->alive() || (*reader)->attachedReader() != 0) continue;
    const auto it = dead_since_.find(path);
    const int64_t since = it == dead_since_.end() ? now_ns : it->second;
    if (now_ns - since >= keep_ns)
      remove(path);
    else
      dead[path] = since;
  }
  dead_since_ = std::move(dead);
}

}  // namespace tracesmith::ring
