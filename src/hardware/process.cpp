#include "hardware/process.hpp"

#include <pwd.h>
#include <sys/stat.h>

#include "base/text.hpp"
#include "hardware/sysfs.hpp"
#include "model/launcher.hpp"

namespace tracesmith::hardware {
namespace {

/// Value of a variable in the text of /proc/<pid>/environ, whose entries end with a zero.
std::string variable(const std::string& environment, const std::string& name) {
  const std::string key = name + "=";
  size_t at = environment.starts_with(key) ? 0 : environment.find(std::string(1, '\0') + key);
  if (at == std::string::npos) return "";
  if (at > 0 || environment[0] == '\0') ++at;
  at += key.size();
  return environment.substr(at, environment.find('\0', at) - at);
}

std::string firstOf(const std::string& environment, const char* const* names) {
  std::string value;
  for (; *names && value.empty(); ++names) value = variable(environment, *names);
  return value;
}

}  // namespace

ProcessInfo processInfo(const std::string& root, int64_t pid) {
  ProcessInfo info;
  info.pid = pid;
  const std::string folder = root + "/proc/" + std::to_string(pid);
  struct stat s {};
  if (::stat(folder.c_str(), &s) == 0) {
    passwd entry{}, *found = nullptr;
    char buffer[2048];
    if (::getpwuid_r(s.st_uid, &entry, buffer, sizeof buffer, &found) == 0 && found)
      info.user = found->pw_name;
    else
      info.user = std::to_string(s.st_uid);
  }
  info.command = readText(folder + "/cmdline").value_or("");
  for (char& c : info.command)
    if (c == '\0') c = ' ';
  while (info.command.ends_with(' ')) info.command.pop_back();
  if (info.command.empty()) info.command = readText(folder + "/comm").value_or("");
  if (std::optional<std::string> environment = readText(folder + "/environ")) {
    namespace launcher = model::launcher;
    for (const char* const* name = launcher::kRank; *name && info.rank == kUnknown; ++name)
      if (int64_t rank = 0; parseInt(variable(*environment, *name), rank) && rank >= 0) info.rank = rank;
    info.job = firstOf(*environment, launcher::kJob);
    info.job_step = firstOf(*environment, launcher::kStep);
    info.pod = firstOf(*environment, launcher::kPod);
    info.pod_namespace = firstOf(*environment, launcher::kNamespace);
    if (!variable(*environment, launcher::kInKubernetes).empty()) {
      if (info.pod.empty()) info.pod = variable(*environment, launcher::kHostName);
      if (info.pod_namespace.empty())
        info.pod_namespace = readText(folder + "/root" + launcher::kNamespaceFile).value_or("");
    }
  }
  return info;
}

}  // namespace tracesmith::hardware
