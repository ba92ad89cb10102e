// The topology as a picture: with NVSwitch two rows of GPUs around it, otherwise a ring of GPUs with their links.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numbers>

#include "base/text.hpp"
#include "hardware/inventory.hpp"
#include "hardware/topology/links.hpp"

namespace tracesmith::cluster {

using hardware::Gpu;
using hardware::Nearness;

namespace {

constexpr double kBoxW = 150, kBoxH = 62, kGap = 26;
constexpr const char* kGreen = "#4d8b00";

std::string number(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f", v);
  return buffer;
}

std::string gbps(std::optional<double> v) {
  if (!v) return "speed unknown";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, *v < 10 ? "%.1f GB/s" : "%.0f GB/s", *v);
  return buffer;
}

class Picture {
 public:
  Picture(double width, double height) {
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
           "\" width=\"" + number(width) + "\" height=\"" + number(height) +
           "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" "
           "fill=\"#ffffff\"/>\n";
  }
  void box(double x, double y, double w, double h, const char* fill, const char* stroke) {
    out_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(w) + "\" height=\"" + number(h) +
            "\" rx=\"8\" fill=\"" + fill + "\" stroke=\"" + stroke + "\" stroke-width=\"1.5\"/>\n";
  }
  void line(double x1, double y1, double x2, double y2, double width, const char* color, bool dashed = false) {
    out_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
            "\" stroke=\"" + color + "\" stroke-width=\"" + number(width) + "\"" +
            (dashed ? " stroke-dasharray=\"4 4\"" : "") + "/>\n";
  }
  void text(double x, double y, const std::string& s, double size, const char* color = "#1f2933",
            const char* weight = "normal", const char* anchor = "middle") {
    out_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + number(size) + "\" fill=\"" + color +
            "\" font-weight=\"" + weight + "\" text-anchor=\"" + anchor + "\">" + escapedMarkup(s) + "</text>\n";
  }
  /// Text on a white patch, readable over lines.
  void label(double x, double y, const std::string& s, const char* color) {
    const double w = 6.2 * static_cast<double>(s.size()) + 8;
    out_ += "<rect x=\"" + number(x - w / 2) + "\" y=\"" + number(y - 9) + "\" width=\"" + number(w) +
            "\" height=\"15\" rx=\"4\" fill=\"#ffffff\" stroke=\"#d5dbe1\" stroke-width=\"0.7\"/>\n";
    text(x, y + 2.5, s, 10, color);
  }
  void gpu(double x, double y, const Gpu& g) {
    box(x, y, kBoxW, kBoxH, g.problem.empty() ? "#eef6e3" : "#fdecea", g.problem.empty() ? kGreen : "#c62828");
    text(x + kBoxW / 2, y + 20, "GPU " + std::to_string(g.index), 14, "#1f2933", "bold");
    std::string model = g.name;
    for (const char* word : {"NVIDIA ", "AMD "})
      if (model.starts_with(word)) model = model.substr(std::string(word).size());
    if (model.size() > 23) model = model.substr(0, 22) + "…";
    text(x + kBoxW / 2, y + 36, model, 10.5, "#3e4c59");
    std::string third = g.numa == hardware::kUnknown ? "" : "NUMA " + std::to_string(g.numa);
    if (g.pcie_generation != hardware::kUnknown)
      third += (third.empty() ? "" : " · ") + ("PCIe " + std::to_string(g.pcie_generation)) + " x" +
               std::to_string(std::max<int64_t>(0, g.pcie_lanes));
    text(x + kBoxW / 2, y + 52, third, 9.5, "#7b8794");
  }
  std::string end() { return out_ + "</svg>\n"; }

 private:
  std::string out_;
};

std::string title(const hardware::Inventory& v) {
  std::map<std::string, int> models;
  for (const Gpu& g : v.gpus) ++models[g.name];
  std::string out = v.node + ": ";
  bool first = true;
  for (const auto& [model, n] : models) {
    out += (first ? "" : ", ") + std::to_string(n) + " × " + model;
    first = false;
  }
  return out;
}

/// NICs near a GPU: at most a PCIe switch away.
std::vector<std::string> nearNics(const hardware::Inventory& v, int32_t gpu) {
  std::vector<std::string> names;
  for (const hardware::NicNearness& n : v.nic_nearness)
    if (n.gpu == gpu && n.nearness <= Nearness::switches) names.push_back(n.nic);
  return names;
}

void nicLine(Picture& p, const hardware::Inventory& v, const Gpu& g, double x, double y, bool below) {
  std::vector<std::string> nics = nearNics(v, g.index);
  if (nics.empty()) return;
  std::string text;
  for (const std::string& n : nics) text += (text.empty() ? "" : ", ") + n;
  const double at = below ? y + kBoxH + 34 : y - 34;
  p.line(x + kBoxW / 2, below ? y + kBoxH : y, x + kBoxW / 2, at, 1.5, "#0b69a3");
  p.label(x + kBoxW / 2, at, text, "#0b69a3");
}

std::string withSwitch(const hardware::Inventory& v) {
  const size_t n = v.gpus.size(), above = (n + 1) / 2;
  const double width = std::max(560.0, static_cast<double>(above) * (kBoxW + kGap) + 80);
  const double margin = v.nic_nearness.empty() ? 30 : 90, top = 50 + margin, bar = top + kBoxH + 90,
               bottom = bar + 44 + 90, height = bottom + kBoxH + margin;
  Picture p(width, height);
  p.text(width / 2, 32, title(v), 17, "#1f2933", "bold");
  const double bar_x = 40, bar_w = width - 80;
  for (size_t i = 0; i < n; ++i) {
    const Gpu& g = v.gpus[i];
    const bool up = i < above;
    const size_t in_row = up ? i : i - above, row = up ? above : n - above;
    const double x = width / 2 - static_cast<double>(row) * (kBoxW + kGap) / 2 + kGap / 2 +
                     static_cast<double>(in_row) * (kBoxW + kGap);
    const double y = up ? top : bottom, middle = x + kBoxW / 2;
    uint32_t links = 0;
    std::optional<double> speed = 0;  // absent: that of one of them is not known
    for (const hardware::NvLink& l : g.links)
      if (l.active && l.remote == hardware::NvLink::Remote::nvswitch) {
        ++links;
        if (l.speed_mbps == hardware::kUnknown) speed.reset();
        if (speed) *speed += static_cast<double>(l.speed_mbps) / 1000;
      }
    if (links > 0) {
      p.line(middle, up ? y + kBoxH : y, middle, up ? bar : bar + 44, std::min(9.0, 1.5 + links / 3.0), kGreen);
      p.label(middle, up ? bar - 45 : bar + 44 + 45, std::to_string(links) + " links, " + gbps(speed), kGreen);
    }
    p.gpu(x, y, g);
    nicLine(p, v, g, x, y, !up);
  }
  p.box(bar_x, bar, bar_w, 44, "#76b900", kGreen);
  p.text(width / 2, bar + 28, "NVSwitch", 16, "#ffffff", "bold");
  p.text(width / 2, 54,
         v.gpus[0].simulated ? "Simulated. Bandwidth in one direction, as a driver would report it."
                             : "Bandwidth in one direction, as reported by the driver.",
         11, "#7b8794");
  return p.end();
}

std::string ring(const GPUTopology& t, const hardware::Inventory& v) {
  const size_t n = v.gpus.size();
  const double radius = n <= 1 ? 0 : std::max(170.0, static_cast<double>(n) * (kBoxW + 110) / (2 * std::numbers::pi));
  const double width = std::max(520.0, 2 * radius + kBoxW + 120), height = 2 * radius + kBoxH + 210;
  const double cx = width / 2, cy = 100 + radius + kBoxH / 2 + 10;
  Picture p(width, height);
  p.text(cx, 32, title(v), 17, "#1f2933", "bold");
  p.text(cx, 54, "Bandwidth in one direction, as reported by the driver.", 11, "#7b8794");
  std::map<uint32_t, std::pair<double, double>> at;  // middle of a GPU's box
  for (size_t i = 0; i < n; ++i) {
    const double angle = -std::numbers::pi / 2 +
                         2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n) +
                         (n == 4   ? -std::numbers::pi / 4
                          : n == 2 ? std::numbers::pi / 2
                                   : 0);
    at[static_cast<uint32_t>(v.gpus[i].index)] = {cx + radius * std::cos(angle), cy + radius * std::sin(angle)};
  }
  bool pcie = false;
  const GPUTopologyInfo info = t.getTopology();
  for (const GPULink& l : info.links) {
    if (l.type != GPULinkType::PCIe) continue;
    pcie = true;
    p.line(at[l.gpu_a].first, at[l.gpu_a].second, at[l.gpu_b].first, at[l.gpu_b].second, 1, "#b8c2cc", true);
  }
  std::vector<std::pair<double, double>> taken;  // middles of labels
  auto crowded = [&](double x, double y, double w) {
    for (const auto& [index, middle] : at)
      if (std::abs(x - middle.first) < (kBoxW + w) / 2 + 4 && std::abs(y - middle.second) < kBoxH / 2 + 14) return true;
    for (const auto& [lx, ly] : taken)
      if (std::abs(x - lx) < w + 4 && std::abs(y - ly) < 17) return true;
    return false;
  };
  std::vector<std::pair<const GPULink*, std::pair<double, double>>> labels;
  const double label_width = n <= 4 ? 96 : 30;
  for (const GPULink& l : info.links) {
    if (l.type == GPULinkType::None || l.type == GPULinkType::PCIe) continue;
    const auto [x1, y1] = at[l.gpu_a];
    const auto [x2, y2] = at[l.gpu_b];
    p.line(x1, y1, x2, y2, std::min(10.0, 1.0 + 1.3 * l.link_count), l.link_count > 1 ? "#4d8b00" : "#8cbf45");
    for (double share : {0.5, 0.42, 0.58, 0.36, 0.64, 0.3, 0.7, 0.25, 0.75}) {
      const double x = x1 + (x2 - x1) * share, y = y1 + (y2 - y1) * share;
      if (crowded(x, y, label_width)) continue;
      taken.push_back({x, y});
      labels.push_back({&l, {x, y}});
      break;
    }
  }
  for (const auto& [l, where] : labels)
    p.label(where.first, where.second,
            "NV" + std::to_string(l->link_count) + (n <= 4 ? " " + gbps(l->bandwidth_gbps) : ""), kGreen);
  for (const Gpu& g : v.gpus) {
    const auto [x, y] = at[static_cast<uint32_t>(g.index)];
    p.gpu(x - kBoxW / 2, y - kBoxH / 2, g);
    nicLine(p, v, g, x - kBoxW / 2, y - kBoxH / 2, y >= cy);
  }
  double y = height - 62;
  std::map<std::pair<uint32_t, std::optional<double>>, GPULinkType> kinds;
  for (const GPULink& l : info.links)
    if (l.type != GPULinkType::None && l.type != GPULinkType::PCIe) kinds[{l.link_count, l.bandwidth_gbps}] = l.type;
  for (const auto& [kind, type] : kinds) {
    p.line(40, y, 90, y, std::min(10.0, 1.0 + 1.3 * kind.first), kind.first > 1 ? "#4d8b00" : "#8cbf45");
    p.text(102, y + 4,
           "NV" + std::to_string(kind.first) + ": " + std::to_string(kind.first) + " × " + linkTypeName(type) + ", " +
               gbps(kind.second),
           11, "#3e4c59", "normal", "start");
    y += 20;
  }
  if (pcie) {
    p.line(40, y, 90, y, 1, "#b8c2cc", true);
    std::optional<double> speed;
    for (const GPULink& l : info.links)
      if (l.type == GPULinkType::PCIe) speed = std::max(speed, l.bandwidth_gbps);
    p.text(102, y + 4, speed ? "PCIe only, up to " + gbps(speed) : "PCIe only, speed unknown", 11, "#3e4c59", "normal",
           "start");
  }
  return p.end();
}

}  // namespace

std::string GPUTopology::toSVG() const {
  if (inventory_->gpus.empty()) {
    Picture p(420, 90);
    p.text(210, 50, inventory_->node + ": no GPU found", 15);
    return p.end();
  }
  return topology_.has_nvswitch ? withSwitch(*inventory_) : ring(*this, *inventory_);
}

}  // namespace tracesmith::cluster
