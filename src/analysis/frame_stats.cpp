#include "analysis/frame_stats.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "base/file.hpp"

namespace tracesmith::analysis {
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

void read(simdjson::dom::element frame, const char* key, std::vector<FrameGpu>& gpus, FrameSeries FrameGpu::*series) {
  simdjson::dom::array values;
  if (frame[key].get(values)) return;
  size_t i = 0;
  for (simdjson::dom::element value : values) {
    if (i >= gpus.size()) return;
    double number;
    if (!value.get(number)) (gpus[i].*series).values.back() = number;
    ++i;
  }
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

constexpr const char* kColors[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728",
                                   "#9467bd", "#8c564b", "#e377c2", "#17becf"};
constexpr double kWidth = 960, kHeight = 220, kLeft = 60, kTop = 40, kGap = 60;

void panel(std::string& svg, double top, const char* title, const FrameData& data, FrameSeries FrameGpu::*series) {
  char text[512];
  const double end = std::max(data.seconds.empty() ? 0 : data.seconds.back(), 1e-9);
  auto x = [&](double s) { return kLeft + kWidth * s / end; };
  auto y = [&](double percent) { return top + kHeight * (1 - percent / 100); };
  std::snprintf(text, sizeof text, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"14\">%s</text>\n", kLeft, top - 8, title);
  svg += text;
  for (int percent = 0; percent <= 100; percent += 25) {
    std::snprintf(text, sizeof text,
                  "<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%.0f\" y=\"%.1f\" "
                  "text-anchor=\"end\">%d</text>\n",
                  kLeft, kLeft + kWidth, y(percent), y(percent), kLeft - 6, y(percent) + 4, percent);
    svg += text;
  }
  for (int i = 0; i <= 4; ++i) {
    std::snprintf(text, sizeof text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3g s</text>\n",
                  x(end * i / 4), top + kHeight + 16, end * i / 4);
    svg += text;
  }
  for (size_t g = 0; g < data.gpus.size(); ++g) {
    const std::vector<double>& values = (data.gpus[g].*series).values;
    std::string points;
    auto flush = [&] {
      if (!points.empty())
        svg += "<polyline fill=\"none\" stroke-width=\"1.2\" stroke=\"" + std::string(kColors[g % std::size(kColors)]) +
               "\" points=\"" + points + "\"/>\n";
      points.clear();
    };
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        flush();  // not measured: a gap in the line
        continue;
      }
      std::snprintf(text, sizeof text, "%.1f,%.1f ", x(data.seconds[i]), y(std::clamp(values[i], 0.0, 100.0)));
      points += text;
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
    return Status::corrupt(path + " has no frames: make it with `cluster recover --export`");
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
    if (data.gpus.empty())
      for (simdjson::dom::element id : ids)
        if (!id.get(text)) data.gpus.emplace_back().id = text;
    data.seconds.push_back(at - first);
    for (FrameGpu& gpu : data.gpus) {
      gpu.util.values.push_back(NAN);
      gpu.memory.values.push_back(NAN);
    }
    read(frame, "gpu_util", data.gpus, &FrameGpu::util);
    read(frame, "gpu_memory", data.gpus, &FrameGpu::memory);
  }
  for (FrameGpu& gpu : data.gpus) {
    gpu.util.settle();
    gpu.memory.settle();
  }
  return data;
}

std::string plotFrames(const FrameData& data) {
  const double legend = kTop + 2 * (kHeight + kGap);
  const double height = legend + 18 * std::ceil(static_cast<double>(data.gpus.size()) / 3) + 20;
  char text[512];
  std::snprintf(text, sizeof text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
                "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                kLeft + kWidth + 40, height);
  std::string svg = text;
  svg += "<text x=\"60\" y=\"18\" font-size=\"15\">" + escaped(data.session) + ", from " + escaped(data.start_time) +
         "</text>\n";
  panel(svg, kTop + 12, "GPU utilisation, %", data, &FrameGpu::util);
  panel(svg, kTop + 12 + kHeight + kGap, "GPU memory in use, %", data, &FrameGpu::memory);
  for (size_t g = 0; g < data.gpus.size(); ++g) {
    const double x = kLeft + static_cast<double>(g % 3) * 330,
                 y = legend + 18 * std::floor(static_cast<double>(g) / 3) + 16;
    std::snprintf(text, sizeof text, "<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"8\" fill=\"%s\"/>", x, y - 8,
                  kColors[g % std::size(kColors)]);
    svg += text;
    std::snprintf(text, sizeof text, "<text x=\"%.0f\" y=\"%.0f\">", x + 18, y);
    svg += text + escaped(data.gpus[g].id) + "</text>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace tracesmith::analysis
