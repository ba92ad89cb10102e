#include "hardware/drm/clients.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

constexpr int64_t kFindAgainNs = 10'000'000'000;  // walking all of /proc is dear

/// "1024 KiB" → bytes.
double sizeBytes(std::string_view text) {
  const double n = static_cast<double>(firstNumber(nextWord(text)).value_or(0));
  const std::string_view unit = nextWord(text);
  return n * (unit == "KiB" ? 1024.0 : unit == "MiB" ? 1048576.0 : unit == "GiB" ? 1073741824.0 : 1.0);
}

}  // namespace

void Clients::findFiles() {
  files_.clear();
  for (const std::string& name : listFolder(root_ + "/proc")) {
    int64_t pid = 0;
    if (!parseInt(name, pid)) continue;
    const std::string process = root_ + "/proc/" + name;
    for (const std::string& fd : listFolder(process + "/fd")) {
      char target[64];
      const ssize_t n = ::readlink((process + "/fd/" + fd).c_str(), target, sizeof target);
      if (n > 9 && std::string_view(target, static_cast<size_t>(n)).starts_with("/dev/dri/"))
        files_.emplace_back(pid, process + "/fdinfo/" + fd);
    }
  }
}

Clients::Usage Clients::read(int64_t now_ns) {
  Usage usage;
  if (found_ns_ == 0 || now_ns - found_ns_ >= kFindAgainNs) {
    findFiles();
    found_ns_ = now_ns;
  }
  std::map<std::string, Client> clients;
  std::set<std::string> counted;
  for (const auto& [pid, path] : files_) {
    std::optional<std::string> text = readText(path);
    if (!text) continue;  // the process has ended, or is not ours to see
    std::string driver, pdev, id;
    Client client;
    double memory = 0, resident = 0;
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = nextLine(rest);
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      std::string_view key = line.substr(0, colon), value = line.substr(colon + 1);
      if (key == "drm-driver") driver = nextWord(value);
      if (key == "drm-pdev") pdev = nextWord(value);
      if (key == "drm-client-id") id = nextWord(value);
      auto number = [&] { return static_cast<uint64_t>(std::max<int64_t>(0, firstNumber(value).value_or(0))); };
      if (key.starts_with("drm-engine-") && !key.starts_with("drm-engine-capacity-"))
        client.engines[std::string(key.substr(11))].busy = number();
      if (key.starts_with("drm-cycles-")) client.engines[std::string(key.substr(11))].busy = number();
      if (key.starts_with("drm-total-cycles-")) client.engines[std::string(key.substr(17))].total = number();
      for (const char* name : {"drm-memory-vram", "drm-total-vram0", "drm-total-local0", "drm-total-memory"})
        if (key == name) memory += sizeBytes(value);
      if (key == "drm-resident-memory") resident += sizeBytes(value);
    }
    const bool ours = pdev.empty() ? driver == card_.driver : pdev == card_.pci;
    if (!ours || !counted.insert(id).second) continue;
    usage.seen = true;
    usage.process_bytes[pid] += resident > 0 ? resident : memory;
    clients[id] = std::move(client);
  }
  const double passed = static_cast<double>(now_ns - last_ns_);
  if (last_ns_ != 0 && passed > 0)
    for (const auto& [id, client] : clients) {
      auto before = last_.find(id);
      if (before == last_.end()) continue;
      for (const auto& [name, engine] : client.engines) {
        const Engine& old = before->second.engines[name];
        if (engine.busy < old.busy) continue;  // begun again
        const double done = static_cast<double>(engine.busy - old.busy);
        const double possible = engine.total > 0 ? static_cast<double>(engine.total - old.total) : passed;
        if (possible > 0) usage.engine_percent[name] += 100 * done / possible;
      }
    }
  for (auto& [name, percent] : usage.engine_percent) percent = std::min(percent, 100.0);
  last_ = std::move(clients);
  last_ns_ = now_ns;
  return usage;
}

}  // namespace tracesmith::hardware
