#include "trace/export/frames.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "trace/clocks.hpp"
#include "trace/rows.hpp"

namespace tracesmith::trace {

namespace {

constexpr int64_t kDefaultMs = 500;
constexpr double kUnknown = NAN;

enum Value { kUtil, kUsed, kTotal, kPcieRx, kPcieTx, kNvlinkRx, kNvlinkTx, kValues };
constexpr const char* kMetrics[kValues] = {"gpu_utilization_percent", "gpu_memory_used_bytes", "gpu_memory_total_bytes",
                                           "gpu_pcie_rx_bytes",       "gpu_pcie_tx_bytes",     "gpu_nvlink_rx_bytes",
                                           "gpu_nvlink_tx_bytes"};

struct Sample {
  int64_t time;  // reference
  uint32_t gpu;
  Value value;
  uint32_t part;  // of a counter: a link; 0: all of it
  double number;
};

struct Gpu {
  std::string node, name = "unknown";
  int64_t index = 0;
  double total = kUnknown;  // memory
  double util_sum = 0, memory_sum = 0;
  uint64_t utils = 0, memories = 0;
  std::string id() const { return frameGpuId(node, index, name); }
};

struct Input {
  std::string session = "session";
  int64_t start = INT64_MAX, end = 0, interval_ns = kDefaultMs * 1'000'000;
  std::map<std::pair<std::string, int64_t>, uint32_t> index;  // (node, device) → gpu
  std::vector<Gpu> gpus;
  std::vector<Sample> samples;
  std::map<std::string, uint32_t> parts = {{"", 0}};  // names of links
  bool has[kValues] = {};
};

/// "2026-11-15T07:20:01.123456Z"
std::string isoTime(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
  std::snprintf(text, sizeof text, "%s.%06lldZ", date, static_cast<long long>(unix_ns % 1'000'000'000 / 1000));
  return text;
}

Status read(const std::string& path, Input& in) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path);
  if (!reader) return reader.status();
  Result<Clocks> clocks = readClocks(**reader);
  if (!clocks) return clocks.status();
  RowCursor<SessionRow> session(**reader, {sessions::name, sessions::ts_start, sessions::ts_end, sessions::args});
  while (session.next()) {
    in.session = session.text(sessions::name);
    in.start = session.row().ts_start;
    in.end = std::max<int64_t>(session.row().ts_end, 0);
    int ms = 0;
    const std::string args(session.text(sessions::args));
    if (std::sscanf(args.c_str(), "{\"freq_ms\":%d", &ms) == 1 && ms > 0) in.interval_ns = ms * 1'000'000ll;
  }
  TS_TRY(session.status());
  auto gpuOf = [&](const std::string& node, int64_t device) {
    auto [it, fresh] = in.index.try_emplace({node, device}, static_cast<uint32_t>(in.gpus.size()));
    if (fresh) {
      in.gpus.emplace_back();
      in.gpus.back().node = node;
      in.gpus.back().index = device;
    }
    return it->second;
  };
  RowCursor<DeviceRow> device(**reader, {devices::node, devices::device, devices::name, devices::memory});
  while (device.next()) {
    const DeviceRow& row = device.row();
    if (row.device == kNull) continue;
    Gpu& gpu = in.gpus[gpuOf(std::string(device.text(devices::node)), row.device)];
    if (row.name != kNull) gpu.name = device.text(devices::name);
    if (row.memory != kNull) gpu.total = static_cast<double>(row.memory);
  }
  TS_TRY(device.status());
  RowCursor<MetricRow> metric(
      **reader, {metrics::ts, metrics::node, metrics::device, metrics::name, metrics::value, metrics::part});
  while (metric.next()) {
    const MetricRow& row = metric.row();
    if (row.device == kNull || row.value == kNull) continue;
    const auto* found = std::find(std::begin(kMetrics), std::end(kMetrics), metric.text(metrics::name));
    if (found == std::end(kMetrics)) continue;
    const auto value = static_cast<Value>(found - std::begin(kMetrics));
    if (value < kPcieRx && row.part != kNull) continue;
    const std::string part(row.part == kNull ? "" : metric.text(metrics::part));
    const std::string node(metric.text(metrics::node));
    in.has[value] = true;
    const uint32_t number = in.parts.try_emplace(part, static_cast<uint32_t>(in.parts.size())).first->second;
    in.samples.push_back({(*clocks)[node].toReference(row.ts), gpuOf(node, row.device), value, number,
                          std::bit_cast<double>(row.value)});
  }
  return metric.status();
}

/// The mean rate of a growing total, in GB/s, asked for later and later times.
class Rates {
 public:
  void add(int64_t time, double total) {
    // A smaller one has started again, and nobody knows how far it had come.
    if (last_ && time > last_->time && total >= last_->total)
      spans_.push_back({last_->time, time, (total - last_->total) / static_cast<double>(time - last_->time)});
    last_ = {time, total};
  }
  /// Over the parts of a time that are known; NaN if none is.
  double over(int64_t from, int64_t to) {
    while (next_ < spans_.size() && spans_[next_].to <= from) ++next_;
    double bytes = 0, ns = 0;
    for (size_t i = next_; i < spans_.size() && spans_[i].from < to; ++i) {
      const auto part = static_cast<double>(std::min(to, spans_[i].to) - std::max(from, spans_[i].from));
      bytes += part * spans_[i].rate;
      ns += part;
    }
    return ns > 0 ? bytes / ns : kUnknown;
  }

 private:
  struct Reading {
    int64_t time;
    double total;
  };
  struct Span {
    int64_t from, to;
    double rate;
  };
  std::optional<Reading> last_;
  std::vector<Span> spans_;
  size_t next_ = 0;
};

/// Of a counter that each link of a GPU may have: their sum, where all are known.
class LinkRates {
 public:
  void add(uint32_t part, int64_t time, double total) { parts_[part].add(time, total); }
  double over(int64_t from, int64_t to) {
    double sum = parts_.empty() ? kUnknown : 0;
    for (auto& [part, rates] : parts_) sum += rates.over(from, to);
    return sum;
  }

 private:
  std::map<uint32_t, Rates> parts_;
};

class Frames {
 public:
  Frames(Input& in, File& file) : in_(in), out_(file), rates_(in.gpus.size()) {}

  Status write() {
    std::sort(in_.samples.begin(), in_.samples.end(), [](const Sample& a, const Sample& b) { return a.time < b.time; });
    if (in_.start == INT64_MAX && !in_.samples.empty()) in_.start = in_.samples.front().time;
    for (const Sample& s : in_.samples)
      if (s.value >= kPcieRx) rates_[s.gpu][s.value].add(s.part, s.time, s.number);
    std::string text;
    JsonWriter w(text);
    w.beginObject().field("session_name", in_.session).field("start_time", isoTime(in_.start));
    w.key("end_time");
    in_.end ? w.value(isoTime(in_.end)) : w.null();
    w.key("frames").beginArray();
    for (size_t i = 0; i < in_.samples.size();) {
      const int64_t slot = slotOf(in_.samples[i].time);
      size_t next = i;
      while (next < in_.samples.size() && slotOf(in_.samples[next].time) == slot) ++next;
      frame(w, i, next);
      i = next;
      TS_TRY(out_.write(text));
      text.clear();
    }
    w.endArray().key("summary_by_device").beginObject();
    for (const Gpu& gpu : in_.gpus) {
      w.key(gpu.id()).beginObject();
      average(w, "avg_gpu_util", gpu.util_sum, gpu.utils);
      average(w, "avg_gpu_memory", gpu.memory_sum, gpu.memories);
      w.endObject();
    }
    w.endObject().endObject();
    TS_TRY(out_.write(text + "\n"));
    return out_.flush();
  }

 private:
  using Row = std::array<double, kValues>;

  int64_t slotOf(int64_t time) const { return (time - in_.start) / in_.interval_ns - (time < in_.start); }

  static void average(JsonWriter& w, const char* key, double sum, uint64_t count) {
    w.key(key);
    count ? w.value(sum / static_cast<double>(count)) : w.null();
  }

  void array(JsonWriter& w, const char* key, const std::vector<Row>& rows, double (*f)(const Row&)) {
    w.key(key).beginArray();
    for (const Row& r : rows) w.value(f(r));  // null where it is not known
    w.endArray();
  }

  void frame(JsonWriter& w, size_t first, size_t last) {
    Row none;
    none.fill(kUnknown);
    std::vector<Row> rows(in_.gpus.size(), none);
    std::vector<double> times(in_.gpus.size(), kUnknown);
    std::vector<std::array<uint32_t, kValues>> counts(in_.gpus.size());
    for (size_t i = first; i < last; ++i) {
      const Sample& s = in_.samples[i];
      Gpu& gpu = in_.gpus[s.gpu];
      times[s.gpu] = static_cast<double>(s.time) / 1e9;
      if (s.value == kTotal) gpu.total = s.number;
      if (s.value >= kPcieRx) continue;
      double& mean = rows[s.gpu][s.value];
      const uint32_t n = ++counts[s.gpu][s.value];
      mean = n == 1 ? s.number : mean + (s.number - mean) / n;
      if (s.value == kUtil) gpu.util_sum += s.number, ++gpu.utils;
      if (const double memory = 100 * s.number / gpu.total; s.value == kUsed && !std::isnan(memory))
        gpu.memory_sum += memory, ++gpu.memories;
    }
    const int64_t from = in_.start + slotOf(in_.samples[first].time) * in_.interval_ns;
    for (size_t g = 0; g < rows.size(); ++g) {
      rows[g][kTotal] = in_.gpus[g].total;
      for (size_t value = kPcieRx; value < kValues; ++value)
        rows[g][value] = rates_[g][value].over(from, from + in_.interval_ns);
    }
    w.beginObject().field("frame_id", next_id_++).field("time", isoTime(in_.samples[first].time));
    w.key("gpu_id").beginArray();
    for (const Gpu& gpu : in_.gpus) w.value(gpu.id());
    w.endArray();
    w.key("sample_time").beginArray();
    for (double t : times) w.value(t);
    w.endArray();
    array(w, "gpu_util", rows, [](const Row& r) { return r[kUtil]; });
    array(w, "gpu_memory", rows, [](const Row& r) { return 100 * r[kUsed] / r[kTotal]; });
    if (in_.has[kPcieRx] || in_.has[kPcieTx]) {
      array(w, "dram_bandwidth", rows, [](const Row& r) { return r[kPcieRx] + r[kPcieTx]; });
      array(w, "dram_bandwidth_rx", rows, [](const Row& r) { return r[kPcieRx]; });
      array(w, "dram_bandwidth_tx", rows, [](const Row& r) { return r[kPcieTx]; });
    }
    if (in_.has[kNvlinkRx] || in_.has[kNvlinkTx])
      array(w, "gpu_bandwidth", rows, [](const Row& r) { return r[kNvlinkRx] + r[kNvlinkTx]; });
    w.endObject();
  }

  Input& in_;
  BufferedWriter out_;
  std::vector<std::array<LinkRates, kValues>> rates_;
  int64_t next_id_ = 0;
};

}  // namespace

std::string frameGpuId(const std::string& node, int64_t index, const std::string& name) {
  return node + ":" + std::to_string(index) + ":" + name;
}

Status writeFrames(const std::string& trace, const std::string& path) {
  Input in;
  TS_TRY(read(trace, in));
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(Frames(in, out->file()).write());
  return out->commit();
}

}  // namespace tracesmith::trace
