// CPUs, load and memory: /proc/stat, /proc/loadavg, /proc/meminfo.
#include <cstring>

#include "hardware/host/sources.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

Status unreadable(const SmallFile& file) {
  return Status::io(
      std::string(file.error() == EACCES || file.error() == EPERM ? "permission denied" : "file missing") +
      ": cannot read " + file.path() + ": " + std::strerror(file.error()));
}

class Cpus : public Source {
 public:
  explicit Cpus(const std::string& root)
      : Source("cpu", -1, rateBit(Rate::slow)), stat_(root + "/proc/stat"), load_(root + "/proc/loadavg") {}

  Status read(Rate, Batch& out) override {
    std::string_view text;
    if (!stat_.read(text)) return unreadable(stat_);
    size_t cpu = 0;
    while (text.starts_with("cpu")) {
      std::string_view line = nextLine(text);
      std::string_view name = nextWord(line);
      Times now;
      for (uint64_t& t : now.ticks) t = static_cast<uint64_t>(firstNumber(nextWord(line)).value_or(0));
      if (cpu == last_.size()) last_.push_back({std::string(name == "cpu" ? "" : name), now, false});
      Cpu& c = last_[cpu++];
      if (name != (c.name.empty() ? "cpu" : c.name)) {  // one came or went
        last_.clear();
        return {};
      }
      // user nice system idle iowait irq softirq steal; time of guests is in user already
      uint64_t all = 0;
      for (size_t i = 0; i < 8; ++i) all += now.ticks[i] - c.times.ticks[i];
      if (c.seen && all > 0 && all < 1ull << 40) {
        const auto part = [&](uint64_t ticks) { return 100 * static_cast<double>(ticks) / static_cast<double>(all); };
        const uint64_t idle = now.ticks[3] - c.times.ticks[3], wait = now.ticks[4] - c.times.ticks[4];
        out.add(Metric::host_cpu_busy_percent, part(all - std::min(all, idle + wait)), c.name);
        if (c.name.empty()) out.add(Metric::host_cpu_iowait_percent, part(std::min(all, wait)));
      }
      c.times = now;
      c.seen = true;
    }
    if (cpu == 0) return Status::io("nonsense: " + stat_.path() + " does not start with cpu");
    if (!load_.read(text)) return unreadable(load_);
    for (const char* part : {"1m", "5m", "15m"}) {
      const std::string word(nextWord(text));
      char* end = nullptr;
      const double v = std::strtod(word.c_str(), &end);
      if (end != word.c_str()) out.add(Metric::host_load_average, v, part);
    }
    return {};
  }

 private:
  struct Times {
    uint64_t ticks[8] = {};
  };
  struct Cpu {
    std::string name;
    Times times;
    bool seen;
  };
  SmallFile stat_, load_;
  std::deque<Cpu> last_;  // a deque: names stay where they are
};

class Memory : public Source {
 public:
  explicit Memory(const std::string& root) : Source("memory", -1, rateBit(Rate::slow)), file_(root + "/proc/meminfo") {}

  Status read(Rate, Batch& out) override {
    std::string_view text;
    if (!file_.read(text)) return unreadable(file_);
    std::optional<int64_t> total, available, swap_total, swap_free;
    while (!text.empty()) {
      std::string_view line = nextLine(text), name = nextWord(line);
      if (name == "MemTotal:") total = firstNumber(line);
      if (name == "MemAvailable:") available = firstNumber(line);
      if (name == "SwapTotal:") swap_total = firstNumber(line);
      if (name == "SwapFree:") swap_free = firstNumber(line);
    }
    if (!total) return Status::io("nonsense: " + file_.path() + " has no MemTotal");
    out.add(Metric::host_memory_total_bytes, static_cast<double>(*total) * 1024);
    if (available) out.add(Metric::host_memory_available_bytes, static_cast<double>(*available) * 1024);
    if (swap_total && swap_free)
      out.add(Metric::host_swap_used_bytes, static_cast<double>(*swap_total - *swap_free) * 1024);
    return {};
  }

 private:
  SmallFile file_;
};

}  // namespace

std::unique_ptr<Source> cpuSource(const std::string& root) { return std::make_unique<Cpus>(root); }
std::unique_ptr<Source> memorySource(const std::string& root) { return std::make_unique<Memory>(root); }

}  // namespace tracesmith::hardware
