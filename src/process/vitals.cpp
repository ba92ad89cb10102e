#include "process/vitals.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "hardware/sysfs.hpp"
#include "process/modules.hpp"

namespace tracesmith::process {
namespace {

using hardware::firstNumber;
using hardware::nextWord;

std::string folderOf(const std::string& root, int64_t pid) { return root + "/proc/" + std::to_string(pid); }

bool isHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/// The id of 64 hexadecimal digits in a part of a path such as "docker-<id>.scope".
std::string_view containerId(std::string_view part) {
  constexpr size_t kDigits = 64;
  for (size_t begin = 0; begin + kDigits <= part.size(); ++begin) {
    const std::string_view id = part.substr(begin, kDigits);
    if (std::all_of(id.begin(), id.end(), isHex)) return id;
  }
  return {};
}

/// What follows `before` in a part, up to its end or ".slice".
std::string_view after(std::string_view part, std::string_view before) {
  const size_t at = part.find(before);
  if (at == std::string_view::npos) return {};
  part.remove_prefix(at + before.size());
  return part.substr(0, part.find(".slice"));
}

}  // namespace

std::optional<Vitals> vitals(const std::string& root, int64_t pid) {
  const std::string stat = hardware::readText(folderOf(root, pid) + "/stat").value_or("");
  const size_t name_end = stat.rfind(')');  // names may have spaces and brackets
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(stat).substr(name_end + 1);
  Vitals v;
  for (int field = 3; field <= 20; ++field) {
    const std::string_view word = nextWord(rest);
    if (field == 3 && !word.empty()) v.state = word[0];
    if (field == 14 || field == 15)
      v.cpu_ticks += static_cast<uint64_t>(std::max<int64_t>(0, firstNumber(word).value_or(0)));
    if (field == 20) v.threads = firstNumber(word).value_or(0);
  }
  return v;
}

double clockTicks() { return static_cast<double>(std::max(1l, ::sysconf(_SC_CLK_TCK))); }

Placement placementOf(std::string_view cgroup) {
  Placement place;
  while (!cgroup.empty()) {
    std::string_view path = hardware::nextLine(cgroup);
    while (!path.empty()) {
      const std::string_view part = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(path.size(), part.size() + 1));
      if (const std::string_view id = containerId(part); !id.empty()) place.container = id.substr(0, 12);
      if (std::string_view pod = part.starts_with("pod") ? part.substr(3) : after(part, "-pod"); !pod.empty()) {
        place.pod = pod;
        std::replace(place.pod.begin(), place.pod.end(), '_', '-');
      }
      if (part.starts_with("job_") && firstNumber(part.substr(4))) place.slurm_job = part.substr(4);
    }
  }
  return place;
}

std::vector<int64_t> processIds(const std::string& root) {
  std::vector<int64_t> ids;
  for (const std::string& name : hardware::listFolder(root + "/proc")) {
    int64_t pid = 0;
    if (parseInt(name, pid) && pid > 0) ids.push_back(pid);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool looksLikePython(const std::string& root, int64_t pid) {
  const auto has = [](std::string_view path) {
    return path.substr(path.rfind('/') + 1).find("python") != std::string_view::npos;
  };
  char program[4096] = {};
  if (::readlink((folderOf(root, pid) + "/exe").c_str(), program, sizeof program - 1) <= 0)
    return has(hardware::readText(folderOf(root, pid) + "/comm").value_or(""));
  if (has(program)) return true;
  if (!root.empty()) return false;
  const Result<std::vector<Module>> mapped = modules(static_cast<pid_t>(pid));
  return mapped && std::any_of(mapped->begin(), mapped->end(),
                               [](const Module& m) { return m.path.find("/libpython") != std::string::npos; });
}

}  // namespace tracesmith::process
