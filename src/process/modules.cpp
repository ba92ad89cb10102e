#include "process/modules.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "hardware/process.hpp"
#include "hardware/sysfs.hpp"
#include "process/memory.hpp"

namespace tracesmith::process {
namespace {

std::string folderOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

constexpr size_t kMostMappings = 1 << 20;

bool isKernelThread(pid_t pid) {
  constexpr int64_t kKernelThread = 0x00200000;  // PF_KTHREAD of the kernel, in the ninth field
  const std::string stat = hardware::readText(folderOf(pid) + "/stat").value_or("");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  std::string_view rest = std::string_view(stat).substr(name_end + 1);
  for (int field = 3; field < 9; ++field) hardware::nextWord(rest);
  return hardware::firstNumber(hardware::nextWord(rest)).value_or(0) & kKernelThread;
}

}  // namespace

Status notPermitted(pid_t pid, const std::string& what) {
  std::string change;
  const hardware::ProcessInfo info = hardware::processInfo("", pid);
  if (const auto scope = hardware::readNumber("/proc/sys/kernel/yama/ptrace_scope"); scope && *scope > 0)
    change = *scope < 3 ? "run as root, or allow it with sysctl kernel.yama.ptrace_scope=0"
                        : "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the next boot";
  else if (::geteuid() == 0)
    change = "in a container, add the capability SYS_PTRACE";
  else
    change = "run as " + (info.user.empty() ? std::string("its user") : info.user) + " or as root";
  return Status::forbidden(what + " process " + std::to_string(pid) + " is not permitted: " + change);
}

Result<std::vector<Module>> modules(pid_t pid) {
  const std::string maps = folderOf(pid) + "/maps";
  if (const int fd = ::open(maps.c_str(), O_RDONLY | O_CLOEXEC); fd >= 0)
    ::close(fd);
  else if (errno == EACCES || errno == EPERM)
    return notPermitted(pid, "reading");
  std::ifstream in(maps);
  std::vector<Module> found;
  std::string line;
  size_t lines = 0;
  while (lines < kMostMappings && std::getline(in, line)) {
    ++lines;
    unsigned long begin = 0, end = 0, offset = 0;
    int at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*4s %lx %*s %*s %n", &begin, &end, &offset, &at) < 3 || at <= 0) continue;
    std::string path = line.substr(std::min<size_t>(static_cast<size_t>(at), line.size()));
    const bool file = path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/memfd:");
    if (!file && path != kVdso) continue;
    constexpr std::string_view kDeleted = " (deleted)";
    const bool deleted = path.ends_with(kDeleted);
    if (deleted) path.resize(path.size() - kDeleted.size());
    if (!found.empty() && found.back().path == path)
      found.back().end = end;
    else
      found.push_back({path, begin, end, offset, deleted});
  }
  if (lines > 0) return found;
  if (::access(folderOf(pid).c_str(), F_OK) != 0) return Status::notFound("no process " + std::to_string(pid));
  if (isKernelThread(pid))
    return Status::unsupported("process " + std::to_string(pid) +
                               " is a thread of the kernel: it has no stack to read");
  return Status::notFound("process " + std::to_string(pid) + " has ended");
}

Status mayBeRead(pid_t pid, const std::vector<Module>& modules) {
  ProcessMemory memory(pid);
  char byte = 0;
  if (modules.empty() || memory.read(modules.front().begin, &byte, 1)) return {};
  if (errno == ESRCH) return Status::notFound("process " + std::to_string(pid) + " has ended");
  return errno == EPERM ? notPermitted(pid, "reading") : Status();
}

std::string openPath(pid_t pid, const Module& module) { return folderOf(pid) + "/root" + module.path; }

std::vector<Task> tasks(pid_t pid) {
  std::vector<Task> all;
  const std::string folder = folderOf(pid) + "/task/";
  for (const std::string& name : hardware::listFolder(folder)) {
    Task task;
    task.tid = task.inner = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (task.tid <= 0) continue;
    const auto text = hardware::readText(folder + name + "/status");
    if (!text) continue;
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = hardware::nextLine(rest);
      if (line.starts_with("Name:\t")) {
        task.name = line.substr(6);
      } else if (line.starts_with("State:\t") && line.size() > 7) {
        task.state = line[7];
      } else if (line.starts_with("NSpid:")) {
        const size_t last = line.find_last_of("\t ");
        if (const auto id = hardware::firstNumber(line.substr(last + 1))) task.inner = static_cast<pid_t>(*id);
        break;
      }
    }
    all.push_back(std::move(task));
  }
  std::sort(all.begin(), all.end(), [](const Task& a, const Task& b) { return a.tid < b.tid; });
  return all;
}

}  // namespace tracesmith::process
