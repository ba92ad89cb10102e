#include "trace/export/frame_stats.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "trace/export/canvas.hpp"

namespace tracesmith::trace {
namespace {

/// "2026-11-15T07:20:01.123456Z" → Unix seconds; NaN if it is no time.
double secondsOf(std::string_view text) {
  std::tm tm{};
  double rest = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%d-%d-%dT%d:%d:%lf", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                  &rest) != 6)
    return NAN;
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  return static_cast<double>(::timegm(&tm)) + rest;
}

/// `places`: where the GPUs of this frame are in `gpus`.
void read(simdjson::dom::element frame, const char* key, const std::vector<size_t>& places, std::vector<FrameGpu>& gpus,
          FrameSeries FrameGpu::*series) {
  simdjson::dom::array values;
  if (frame[key].get(values)) return;
  size_t i = 0;
  for (simdjson::dom::element value : values) {
    if (i >= places.size()) return;
    double number;
    if (!value.get(number)) (gpus[places[i]].*series).values.back() = number;
    ++i;
  }
}

constexpr struct {
  const char* key;
  const char* title;
  FrameSeries FrameGpu::*series;
  bool percent;
} kSeries[] = {
    {"gpu_util", "GPU utilisation, %", &FrameGpu::util, true},
    {"gpu_memory", "GPU memory in use, %", &FrameGpu::memory, true},
    {"dram_bandwidth", "PCIe, both directions, GB/s", &FrameGpu::pcie, false},
    {"gpu_bandwidth", "NVLink, both directions, GB/s", &FrameGpu::gpu_to_gpu, false},
};

/// The GPU with this id; one that joins has measured nothing in the frames before.
size_t placeOf(std::string_view id, std::vector<FrameGpu>& gpus, size_t frames_before) {
  for (size_t i = 0; i < gpus.size(); ++i)
    if (gpus[i].id == id) return i;
  FrameGpu& gpu = gpus.emplace_back();
  gpu.id = id;
  for (const auto& s : kSeries) (gpu.*s.series).values.assign(frames_before, NAN);
  return gpus.size() - 1;
}

constexpr Color kColors[] = {0x1f77b4, 0xff7f0e, 0x2ca02c, 0xd62728, 0x9467bd, 0x8c564b, 0xe377c2, 0x17becf};
constexpr double kWidth = 960, kHeight = 220, kLeft = 60, kTop = 40, kGap = 60;

/// The end of an axis from 0: 1, 2 or 5 times a power of ten.
double roundUp(double most) {
  if (!(most > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(most)));
  for (double step : {1.0, 2.0, 5.0})
    if (most <= step * power) return step * power;
  return 10 * power;
}

double mostOf(const FrameData& data, FrameSeries FrameGpu::*series) {
  double most = 0;
  for (const FrameGpu& gpu : data.gpus)
    if ((gpu.*series).measured) most = std::max(most, (gpu.*series).most);
  return most;
}

void panel(Canvas& canvas, double top, const char* title, const FrameData& data, FrameSeries FrameGpu::*series,
           double high) {
  const double end = std::max(data.seconds.empty() ? 0 : data.seconds.back(), 1e-9);
  auto x = [&](double s) { return kLeft + kWidth * s / end; };
  auto y = [&](double value) { return top + kHeight * (1 - value / high); };
  canvas.text(kLeft, top - 8, 14, title);
  for (int i = 0; i <= 4; ++i) {
    const double value = high * i / 4;
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    canvas.line({{kLeft, y(value)}, {kLeft + kWidth, y(value)}}, 1, 0xdddddd);
    canvas.text(kLeft - 6, y(value) + 4, 11, text, Canvas::Align::right);
  }
  for (int i = 0; i <= 4; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", end * i / 4);
    canvas.text(x(end * i / 4), top + kHeight + 16, 11, text, Canvas::Align::middle);
  }
  for (size_t g = 0; g < data.gpus.size(); ++g) {
    const std::vector<double>& values = (data.gpus[g].*series).values;
    std::vector<std::pair<double, double>> points;
    auto flush = [&] {
      canvas.line(points, 1.2, kColors[g % std::size(kColors)]);
      points.clear();
    };
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]))
        flush();  // not measured: a gap in the line
      else
        points.emplace_back(x(data.seconds[i]), y(std::clamp(values[i], 0.0, high)));
    }
    flush();
  }
}

}  // namespace

void FrameSeries::settle() {
  double sum = 0;
  for (double v : values) {
    if (std::isnan(v)) continue;
    least = measured ? std::min(least, v) : v;
    most = measured ? std::max(most, v) : v;
    sum += v;
    ++measured;
  }
  average = measured ? sum / static_cast<double>(measured) : NAN;
}

Result<FrameData> readFrames(const std::string& path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (auto error = parser.load(path).get(root)) {
    if (error == simdjson::IO_ERROR) return Status::io("cannot read " + path);
    return Status::corrupt(path + " is not JSON: " + simdjson::error_message(error));
  }
  FrameData data;
  simdjson::dom::array frames;
  if (root["frames"].get(frames))
    return Status::corrupt(path + " has no frames: create it with `cluster recover --export`");
  std::string_view text;
  if (!root["session_name"].get(text)) data.session = text;
  if (!root["start_time"].get(text)) data.start_time = text;
  if (!root["end_time"].get(text)) data.end_time = text;
  double first = NAN;
  for (simdjson::dom::element frame : frames) {
    const double at = frame["time"].get(text) ? NAN : secondsOf(text);
    if (std::isnan(at)) return Status::corrupt(path + " has a frame without a time");
    if (data.seconds.empty()) first = at;
    simdjson::dom::array ids;
    if (frame["gpu_id"].get(ids)) return Status::corrupt(path + " has a frame without gpu_id");
    std::vector<size_t> places;
    for (simdjson::dom::element id : ids) {
      if (id.get(text)) return Status::corrupt(path + " has a gpu_id that is not a text");
      const bool same = places.size() < data.gpus.size() && data.gpus[places.size()].id == text;
      places.push_back(same ? places.size() : placeOf(text, data.gpus, data.seconds.size()));
    }
    data.seconds.push_back(at - first);
    for (const auto& s : kSeries) {
      for (FrameGpu& gpu : data.gpus) (gpu.*s.series).values.push_back(NAN);
      read(frame, s.key, places, data.gpus, s.series);
    }
  }
  for (FrameGpu& gpu : data.gpus)
    for (const auto& s : kSeries) (gpu.*s.series).settle();
  return data;
}

Status plotFrames(const FrameData& data, const std::string& path) {
  Canvas::Format format;
  if (!Canvas::formatOf(path, format)) return Status::invalid("a plot needs a file name ending in .png, .pdf or .svg");
  std::vector<size_t> shown;
  for (size_t i = 0; i < std::size(kSeries); ++i)
    if (kSeries[i].percent || std::any_of(data.gpus.begin(), data.gpus.end(),
                                          [&](const FrameGpu& gpu) { return (gpu.*kSeries[i].series).measured > 0; }))
      shown.push_back(i);
  const double legend = kTop + static_cast<double>(shown.size()) * (kHeight + kGap);
  const double height = legend + 18 * std::ceil(static_cast<double>(data.gpus.size()) / 3) + 20;
  Result<std::unique_ptr<Canvas>> canvas = Canvas::create(path, format, kLeft + kWidth + 40, height);
  if (!canvas) return canvas.status();
  (*canvas)->text(60, 18, 15, data.session + ", from " + data.start_time);
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto& s = kSeries[shown[i]];
    panel(**canvas, kTop + 12 + static_cast<double>(i) * (kHeight + kGap), s.title, data, s.series,
          s.percent ? 100 : roundUp(mostOf(data, s.series)));
  }
  for (size_t g = 0; g < data.gpus.size(); ++g) {
    const double x = kLeft + static_cast<double>(g % 3) * 330,
                 y = legend + 18 * std::floor(static_cast<double>(g) / 3) + 16;
    (*canvas)->box(x, y - 8, 12, 8, kColors[g % std::size(kColors)]);
    (*canvas)->text(x + 18, y, 11, data.gpus[g].id);
  }
  return (*canvas)->finish();
}

}  // namespace tracesmith::trace
