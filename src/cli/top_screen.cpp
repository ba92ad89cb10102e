#include "cli/top_screen.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/top_line.hpp"

namespace tracesmith::cli {

using namespace hardware;
using Value = Latest::Value;

namespace {

const char* heat(double percent) { return percent >= 90 ? kRed : percent >= 60 ? kYellow : kGreen; }

std::string bar(double percent, size_t width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(width);
  const auto whole = static_cast<size_t>(filled);
  std::string out;
  for (size_t i = 0; i < whole; ++i) out += "█";
  size_t used = whole;
  if (const auto part = static_cast<size_t>((filled - static_cast<double>(whole)) * 8); part > 0 && used < width) {
    out += kEighths[part];
    ++used;
  }
  for (; used < width; ++used) out += "·";
  return out;
}

std::string sparkline(const std::deque<double>& history, size_t width, double most) {
  static constexpr const char* kSteps[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string out;
  const size_t n = std::min(width, history.size());
  for (size_t i = 0; i < width - n; ++i) out += " ";
  for (size_t i = history.size() - n; i < history.size(); ++i)
    out += kSteps[static_cast<size_t>(std::clamp(most > 0 ? history[i] / most : 0.0, 0.0, 1.0) * 7)];
  return out;
}

/// Value of a metric, NaN when it is not there or old.
double current(const Latest::State& s, Metric m, int32_t device, const std::string& part = "") {
  const Value* v = s.find(m, device, part);
  if (!v || (v->metric->rate != Rate::rare && rawClock() - v->ts_ns > kFreshNs)) return std::nan("");
  return v->metric->kind == MetricKind::counter ? v->rate() : v->value;
}

std::string shown(const char* pattern, double v, const std::string& otherwise = "-") {
  return v == v ? format(pattern, v) : otherwise;
}

std::string rateText(double bytes_per_s) {
  return bytes_per_s == bytes_per_s ? humanBytes(static_cast<uint64_t>(std::max(0.0, bytes_per_s))) + "/s" : "-";
}

std::string throttleText(double reasons) {
  if (reasons != reasons) return "";
  const auto bits = static_cast<uint64_t>(reasons);
  std::string out;
  if (bits & (0x20 | 0x40)) out += " HOT";
  if (bits & 0x4) out += " PWR";
  if (bits & 0x80) out += " BRAKE";
  if ((bits & 0x8) && !(bits & (0x40 | 0x80))) out += " SLOW";
  return out;
}

const Gap* gapOf(const Latest::State& s, int32_t device) {
  for (const Gap& g : s.gaps)
    if (g.device == device && device >= 0) return &g;
  return nullptr;
}

std::string header(const Latest::State& s, const TopView& view) {
  Line l(view);
  l.add(printable(s.inventory.node.empty() ? "looking…" : s.inventory.node), kBold);
  size_t simulated = 0;
  for (const Gpu& g : s.inventory.gpus) simulated += g.simulated;
  l.add("  " + std::to_string(s.inventory.gpus.size()) + (s.inventory.gpus.size() == 1 ? " GPU" : " GPUs"));
  if (simulated > 0) l.add(" (simulated)", kYellow);
  const double load = current(s, Metric::host_load_average, -1, "1m");
  if (load == load)
    l.add("  load " + format("%.2f", load) + " " + shown("%.2f", current(s, Metric::host_load_average, -1, "5m")));
  double power = 0;
  bool any = false;
  for (const Gpu& g : s.inventory.gpus)
    if (double p = current(s, Metric::gpu_power_watts, g.index); p == p) {
      power += p;
      any = true;
    }
  if (any) l.add("  GPUs " + format("%.0f W", power));
  if (!s.inventory.nvidia_driver.empty() && view.width >= 100)
    l.add("  driver " + s.inventory.nvidia_driver + "  CUDA " + s.inventory.cuda, kDim);
  return l.text();
}

std::string hostLine(const Latest::State& s, const TopView& view) {
  Line l(view);
  const double busy = current(s, Metric::host_cpu_busy_percent, -1);
  const double total = current(s, Metric::host_memory_total_bytes, -1),
               available = current(s, Metric::host_memory_available_bytes, -1);
  const double used = (total - available) / total * 100;
  const size_t width = view.width >= 120 ? 30 : 14;
  l.add("CPU ").add(bar(busy == busy ? busy : 0, width), heat(busy)).add(" " + shown("%3.0f%%", busy));
  l.add("   MEM ").add(bar(used == used ? used : 0, width), heat(used));
  l.add(" " + (total == total ? humanBytes(static_cast<uint64_t>(total - available)) + " of " +
                                    humanBytes(static_cast<uint64_t>(total))
                              : "-"));
  return l.text();
}

std::string trafficLine(const Latest::State& s, const TopView& view) {
  double rx = 0, tx = 0, read = 0, written = 0, rdma_rx = 0, rdma_tx = 0;
  bool rdma = false;
  for (const Value& v : s.values) {
    if (v.device >= 0 || v.metric->kind != MetricKind::counter || rawClock() - v.ts_ns > kFreshNs) continue;
    if (v.metric == &metricInfo(Metric::host_network_rx_bytes) && v.part != "lo") rx += v.rate();
    if (v.metric == &metricInfo(Metric::host_network_tx_bytes) && v.part != "lo") tx += v.rate();
    if (v.metric == &metricInfo(Metric::host_disk_read_bytes)) read += v.rate();
    if (v.metric == &metricInfo(Metric::host_disk_written_bytes)) written += v.rate();
    if (v.metric == &metricInfo(Metric::rdma_rx_bytes)) rdma_rx += v.rate(), rdma = true;
    if (v.metric == &metricInfo(Metric::rdma_tx_bytes)) rdma_tx += v.rate();
  }
  Line l(view);
  l.add("net ", kDim).add("in " + rateText(rx) + "  out " + rateText(tx));
  if (rdma) l.add("   rdma ", kDim).add("in " + rateText(rdma_rx) + "  out " + rateText(rdma_tx));
  l.add("   disk ", kDim).add("read " + rateText(read) + "  write " + rateText(written));
  return l.text();
}

std::string gpuHeading(const TopView& view) {
  Line l(view);
  l.add("GPU  utilisation").to(24).add("memory").to(43).add("power").to(50).add("temp").to(56).add("clock").to(63);
  if (view.width >= 130)
    l.add("SM").to(69).add("tensor").to(77).add("DRAM").to(83).add("NVLink in+out").to(99).add("PCIe in+out").to(115);
  l.add("history");
  return l.text();
}

std::string gpuLine(const Latest::State& s, const Gpu& g, const TopView& view) {
  Line l(view);
  l.add(format("%3.0f  ", g.index), kBold);
  if (const Gap* gap = gapOf(s, g.index)) {
    l.add("no response: " + gap->cause + ", " + humanNs(static_cast<double>(rawClock() - gap->from_ns)), kRed);
    return l.text();
  }
  const double util = current(s, Metric::gpu_utilization_percent, g.index);
  const double used = current(s, Metric::gpu_memory_used_bytes, g.index);
  const double share = g.memory_bytes > 0 ? 100 * used / static_cast<double>(g.memory_bytes) : std::nan("");
  l.add(bar(util == util ? util : 0, 12), util == util ? heat(util) : kDim)
      .add(" " + shown("%3.0f%%", util, "  - "))
      .to(24);
  l.add(bar(share == share ? share : 0, 6), share == share ? heat(share) : kDim);
  l.add(" " + shown("%.0f", used / 1e9) + "/" +
        shown("%.0f GB", g.memory_bytes > 0 ? static_cast<double>(g.memory_bytes) / 1e9 : std::nan("")))
      .to(43);
  l.add(shown("%.0f W", current(s, Metric::gpu_power_watts, g.index))).to(50);
  const double celsius = current(s, Metric::gpu_temperature_celsius, g.index);
  l.add(shown("%.0f°C", celsius), celsius >= 85 ? kRed : celsius >= 75 ? kYellow : nullptr).to(56);
  l.add(shown("%.0f", current(s, Metric::gpu_sm_clock_mhz, g.index))).to(63);
  if (view.width >= 130) {
    l.add(shown("%.0f%%", current(s, Metric::gpu_sm_activity_percent, g.index))).to(69);
    l.add(shown("%.0f%%", current(s, Metric::gpu_tensor_activity_percent, g.index))).to(77);
    l.add(shown("%.0f%%", current(s, Metric::gpu_dram_activity_percent, g.index))).to(83);
    l.add(
        rateText(current(s, Metric::gpu_nvlink_rx_bytes, g.index) + current(s, Metric::gpu_nvlink_tx_bytes, g.index)));
    l.to(99).add(
        rateText(current(s, Metric::gpu_pcie_rx_bytes, g.index) + current(s, Metric::gpu_pcie_tx_bytes, g.index)));
    l.to(115);
  }
  const std::string throttle = throttleText(current(s, Metric::gpu_throttle_reasons, g.index));
  const size_t room = view.width > l.used() + throttle.size() ? view.width - l.used() - throttle.size() : 0;
  if (const Value* v = s.find(Metric::gpu_utilization_percent, g.index))
    l.add(sparkline(v->history, std::min<size_t>(room, 60), 100), kCyan);
  return l.add(throttle, kRed).text();
}

/// One character a core, as many as fit.
std::string coreLine(const Latest::State& s, const TopView& view) {
  std::deque<double> cores;
  for (int i = 0;; ++i) {
    const double v = current(s, Metric::host_cpu_busy_percent, -1, "cpu" + std::to_string(i));
    if (v != v) break;
    cores.push_back(v);
  }
  Line l(view);
  if (cores.empty()) return "";
  l.add("cores ", kDim).add(sparkline(cores, std::min(cores.size(), view.width - 6), 100), kGreen);
  return l.text();
}

}  // namespace

std::vector<std::string> topLines(const Latest::State& s, std::vector<TopProcess> processes, const TopView& view) {
  std::sort(processes.begin(), processes.end(), [&](const TopProcess& a, const TopProcess& b) {
    switch (view.sort) {
      case TopSort::memory:
        return (a.bytes == a.bytes ? a.bytes : -1) > (b.bytes == b.bytes ? b.bytes : -1);
      case TopSort::gpu:
        return std::pair(a.gpu, a.info.pid) < std::pair(b.gpu, b.info.pid);
      case TopSort::rank:
        return std::pair(a.info.rank, a.gpu) < std::pair(b.info.rank, b.gpu);
      case TopSort::user:
        return std::pair(a.info.user, a.info.pid) < std::pair(b.info.user, b.info.pid);
      default:
        return a.info.pid < b.info.pid;
    }
  });
  std::vector<std::string> lines = {header(s, view), hostLine(s, view)};
  if (view.height >= 16)
    if (std::string cores = coreLine(s, view); !cores.empty() && view.height >= 20) lines.push_back(cores);
  lines.push_back(trafficLine(s, view));
  lines.push_back("");
  // GPUs may take what processes leave; on a very small screen there are only GPUs.
  const size_t footer = 1, left = view.height > lines.size() + footer ? view.height - lines.size() - footer : 1;
  if (left < 12) processes.clear();
  const size_t wanted = processes.empty() ? (left < 12 ? 0 : 2) : std::min<size_t>(processes.size(), left / 3) + 2;
  const size_t room = left > wanted + 1 ? left - wanted - 1 : 1;
  const size_t gpus = s.inventory.gpus.size();
  const size_t first = gpus > room ? std::min<size_t>(static_cast<size_t>(view.scroll), gpus - room) : 0;
  if (gpus == 0) {
    Line l(view);
    lines.push_back(l.add(s.found ? "no GPU found" : "looking for GPUs…", kYellow).text());
  } else {
    Line l(view);
    lines.push_back(l.add(gpuHeading(view), kDim).text());
  }
  const size_t shown_gpus = std::min(gpus - first, gpus > room ? room - 1 : room);
  for (size_t i = first; i < first + shown_gpus; ++i) lines.push_back(gpuLine(s, s.inventory.gpus[i], view));
  if (gpus > shown_gpus) {
    Line l(view);
    lines.push_back(l.add("… " + std::to_string(gpus - shown_gpus) + " more (arrow keys)", kDim).text());
  }
  if (!processes.empty()) {
    lines.push_back("");
    for (std::string& line : processLines(processes, view))
      if (lines.size() + footer < view.height) lines.push_back(std::move(line));
  } else if (gpus > 0 && left >= 12) {
    lines.push_back("");
    Line l(view);
    lines.push_back(l.add("no visible process uses the GPUs", kDim).text());
  }
  if (view.whole) return lines;
  while (lines.size() + footer < view.height) lines.push_back("");
  lines.resize(view.height - footer);
  static constexpr const char* kSorts[] = {"memory", "gpu", "pid", "rank", "user"};
  Line l(view);
  l.add(std::string("q quit  sort: m memory  g gpu  p pid  r rank  u user  [") +
            kSorts[static_cast<size_t>(view.sort)] + "]",
        kDim);
  lines.push_back(l.text());
  return lines;
}

std::string topJson(const Latest::State& s, const std::vector<TopProcess>& processes) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("node", s.inventory.node).key("metrics").beginArray();
  for (const Value& v : s.values) {
    w.beginObject().field("name", v.metric->name).field("unit", v.metric->unit).key("device");
    v.device < 0 ? w.null() : w.value(static_cast<int64_t>(v.device));
    w.key("part");
    v.part.empty() ? w.null() : w.value(v.part);
    w.field("value", v.value);
    if (v.metric->kind == MetricKind::counter) w.field("per_second", v.rate());
    w.endObject();
  }
  w.endArray().key("gpus").beginArray();
  for (const Gpu& g : s.inventory.gpus)
    w.beginObject()
        .field("index", static_cast<int64_t>(g.index))
        .field("name", g.name)
        .field("vendor", g.vendor)
        .field("simulated", g.simulated)
        .endObject();
  w.endArray().key("processes").beginArray();
  for (const TopProcess& p : processes) {
    auto maybe = [&w](const char* key, const auto& value) {
      w.key(key);
      value ? (void)w.value(*value) : (void)w.null();
    };
    w.beginObject().field("pid", p.info.pid).key("gpu");
    p.gpu < 0 ? w.null() : w.value(static_cast<int64_t>(p.gpu));
    w.field("memory_bytes", p.bytes).field("user", p.info.user).field("command", p.info.command).key("job");
    p.info.job.empty() ? w.null() : w.value(p.info.job);
    w.key("rank");
    p.info.rank == kUnknown ? w.null() : w.value(p.info.rank);
    w.key("role");
    p.role.empty() ? w.null() : w.value(p.role);
    w.field("simulated", p.simulated);
    maybe("step", p.step ? std::optional(p.step->number) : std::nullopt);
    maybe("step_age_s", p.step ? std::optional(static_cast<double>(p.step->age_ns) / 1e9) : std::nullopt);
    for (const model::RateInfo& rate : model::kRates) maybe(rate.field, p.rates.*rate.value);
    w.endObject();
  }
  w.endArray().key("gaps").beginArray();
  for (const Gap& g : s.gaps)
    w.beginObject().field("source", g.source).field("cause", g.cause).field("detail", g.detail).endObject();
  w.endArray().endObject();
  return out;
}

}  // namespace tracesmith::cli
