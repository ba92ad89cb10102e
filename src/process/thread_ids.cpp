#include "process/thread_ids.hpp"

#include <set>
#include <unordered_map>

namespace tracesmith::process {
namespace {

constexpr size_t kStructBytes = 2048;  // glibc 2.36 has the id at byte 720, musl at byte 48
constexpr size_t kCompared = 64;       // threads that must agree on the place

}  // namespace

std::vector<std::optional<size_t>> matchTasks(const std::vector<PythonThread>& threads, const std::vector<Task>& tasks,
                                              Memory& memory) {
  std::unordered_map<int64_t, size_t> by_id;
  for (size_t i = 0; i < tasks.size(); ++i) by_id[tasks[i].inner] = i;
  std::vector<std::optional<size_t>> found(threads.size());
  const auto match = [&](size_t i, int64_t id) {
    if (const auto at = by_id.find(id); at != by_id.end()) found[i] = at->second;
  };

  std::vector<std::vector<int32_t>> structs;
  std::vector<size_t> unknown;
  for (size_t i = 0; i < threads.size(); ++i) {
    if (threads[i].native_id) {
      match(i, *threads[i].native_id);
      continue;
    }
    unknown.push_back(i);
    if (structs.size() >= kCompared) continue;
    std::vector<int32_t> words(kStructBytes / sizeof(int32_t));
    if (memory.read(threads[i].id, words.data(), kStructBytes)) structs.push_back(std::move(words));
  }
  if (structs.empty()) return found;
  for (size_t place = 0; place < kStructBytes / sizeof(int32_t); ++place) {
    std::set<int32_t> ids;
    for (const auto& words : structs)
      if (by_id.contains(words[place])) ids.insert(words[place]);
    if (ids.size() != structs.size()) continue;
    for (const size_t i : unknown)
      if (const auto id = memory.get<int32_t>(threads[i].id + place * sizeof(int32_t))) match(i, *id);
    break;
  }
  return found;
}

}  // namespace tracesmith::process
