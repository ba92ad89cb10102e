// Disks and network: /proc/diskstats, /proc/net/dev.
#include <cstring>
#include <map>

#include "hardware/host/machine.hpp"
#include "hardware/host/sources.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

Status unreadable(const SmallFile& file) {
  return Status::io("file missing: cannot read " + file.path() + ": " + std::strerror(file.error()));
}

class Disks : public Source {
 public:
  explicit Disks(const std::string& root)
      : Source("disks", -1, rateBit(Rate::slow)), root_(root), file_(root + "/proc/diskstats") {}

  Status read(Rate, Batch& out) override {
    std::string_view text;
    if (!file_.read(text)) return unreadable(file_);
    while (!text.empty()) {
      std::string_view line = nextLine(text);
      (void)nextWord(line);
      (void)nextWord(line);
      const std::string_view name = nextWord(line);
      uint64_t v[10] = {};
      for (uint64_t& n : v) n = static_cast<uint64_t>(firstNumber(nextWord(line)).value_or(0));
      if (name.empty()) continue;
      auto found = disks_.find(name);
      if (found == disks_.end()) {
        std::string key(name);
        const bool real = isDisk(root_, key);
        found = disks_.emplace(key, Disk{real, {}, {}, {}}).first;
      }
      Disk& d = found->second;
      if (!d.real) continue;
      // Sectors of 512 bytes, whatever the disk's own are; ms, a 32-bit number.
      out.add(Metric::host_disk_read_bytes, d.read.total(v[2]) * 512, found->first);
      out.add(Metric::host_disk_written_bytes, d.written.total(v[6]) * 512, found->first);
      out.add(Metric::host_disk_busy_ns, d.busy.total(v[9], 32) * 1e6, found->first);
    }
    return {};
  }

 private:
  struct Disk {
    bool real;
    Counter read, written, busy;
  };
  std::string root_;
  SmallFile file_;
  std::map<std::string, Disk, std::less<>> disks_;
};

class Network : public Source {
 public:
  explicit Network(const std::string& root)
      : Source("network", -1, rateBit(Rate::slow)), file_(root + "/proc/net/dev") {}

  Status read(Rate, Batch& out) override {
    std::string_view text;
    if (!file_.read(text)) return unreadable(file_);
    while (!text.empty()) {
      std::string_view line = nextLine(text);
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      std::string_view before = line.substr(0, colon);
      const std::string_view name = nextWord(before);
      line.remove_prefix(colon + 1);
      uint64_t v[12] = {};  // rx: bytes packets errs drop fifo frame compressed multicast; tx: bytes packets errs drop
      for (uint64_t& n : v) n = static_cast<uint64_t>(firstNumber(nextWord(line)).value_or(0));
      auto found = interfaces_.find(name);
      if (found == interfaces_.end()) {
        std::string n(name);
        found =
            interfaces_
                .emplace(n, Interface{n + " rx errors", n + " rx drops", n + " tx errors", n + " tx drops", {}, {}, {}})
                .first;
      }
      Interface& i = found->second;
      out.add(Metric::host_network_rx_bytes, i.rx.total(v[0]), found->first);
      out.add(Metric::host_network_tx_bytes, i.tx.total(v[8]), found->first);
      const std::string* parts[] = {&i.rx_errors, &i.rx_drops, &i.tx_errors, &i.tx_drops};
      const size_t columns[] = {2, 3, 10, 11};
      for (size_t k = 0; k < 4; ++k) out.add(Metric::host_network_errors, i.errors[k].total(v[columns[k]]), *parts[k]);
    }
    return {};
  }

 private:
  struct Interface {
    std::string rx_errors, rx_drops, tx_errors, tx_drops;
    Counter rx, tx, errors[4];
  };
  SmallFile file_;
  std::map<std::string, Interface, std::less<>> interfaces_;
};

}  // namespace

std::unique_ptr<Source> diskSource(const std::string& root) { return std::make_unique<Disks>(root); }
std::unique_ptr<Source> networkSource(const std::string& root) { return std::make_unique<Network>(root); }

std::vector<KeyedSource> hostSources(const std::string& root) {
  std::vector<KeyedSource> sources;
  sources.push_back({"cpu", cpuSource(root)});
  sources.push_back({"memory", memorySource(root)});
  sources.push_back({"disks", diskSource(root)});
  sources.push_back({"network", networkSource(root)});
  if (!listFolder(root + "/sys/class/infiniband").empty()) sources.push_back({"rdma", rdmaSource(root)});
  sources.push_back({"kernel log", kernelLogSource(root)});
  return sources;
}

}  // namespace tracesmith::hardware
