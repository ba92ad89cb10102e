// The topology as a picture: for each kind of node a circle of GPUs with their links, and its network cards below.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <set>

#include "base/text.hpp"
#include "server/sources/topology.hpp"

namespace tracesmith::server {
namespace {

constexpr double kPanelW = 400, kCircle = 300, kRadius = 112, kGpu = 19, kNicH = 26, kLine = 17, kPad = 16;
constexpr size_t kPanels = 24, kNics = 12;
constexpr const char* kInk = "#1f2933";
constexpr const char* kFine = "#616e7c";

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

const char* colorOf(const std::string& kind) {
  auto has = [&](const char* part) { return kind.find(part) != std::string::npos; };
  return has("NV") || has("xGMI") || has("XGMI") ? "#4d8b00" : has("PCI") ? "#9aa5b1" : "#0b69a3";
}

struct Shape {
  std::vector<std::string> nodes;
  const NodeTopology* like;
};

bool alike(const NodeTopology& a, const NodeTopology& b) {
  auto name = [](const auto& x, const auto& y) { return x.first == y.first && x.second.name == y.second.name; };
  return a.simulated == b.simulated && a.links == b.links && a.nics == b.nics &&
         std::equal(a.gpus.begin(), a.gpus.end(), b.gpus.begin(), b.gpus.end(), name);
}

std::vector<Shape> shapesOf(const Topology& topology) {
  std::vector<Shape> shapes;
  for (const auto& entry : topology) {
    auto it = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& s) { return alike(*s.like, entry.second); });
    if (it == shapes.end()) it = shapes.insert(shapes.end(), {{}, &entry.second});
    it->nodes.push_back(entry.first);
  }
  return shapes;
}

std::string speed(const Link& l) {
  if (std::isnan(l.gbps)) return "speed unknown";
  char text[48];
  std::snprintf(text, sizeof text, "%.4g GB/s%s", l.gbps, l.measured ? " measured" : "");
  return text;
}

std::string describe(const Link& l) {
  return l.kind + (l.count == trace::kNull ? "" : " × " + std::to_string(l.count)) + ", " + speed(l);
}

std::string speed(const Nic& nic) {
  if (nic.speed_mbit == trace::kNull) return "";
  char text[48];
  std::snprintf(text, sizeof text, " %.4g Gbit/s", static_cast<double>(nic.speed_mbit) / 1000);
  return text;
}

/// What is known of a node, and what it did not say, as sentences.
std::vector<std::string> captions(const NodeTopology& n, bool recorded) {
  std::vector<std::string> lines;
  std::map<std::string, int> models, links;
  for (const auto& [index, device] : n.gpus) ++models[device.name.empty() ? "unnamed GPU" : device.name];
  for (const auto& [model, count] : models) lines.push_back(std::to_string(count) + " × " + model);
  if (n.gpus.empty()) lines.emplace_back("no GPU reported");
  for (const Link& l : n.links) ++links[describe(l)];
  for (const auto& [what, pairs] : links)
    lines.push_back(what + ": " + std::to_string(pairs) + (pairs == 1 ? " pair" : " pairs"));
  if (recorded && n.links.empty() && n.gpus.size() > 1) lines.emplace_back("no links between its GPUs reported");
  if (recorded && n.nics.empty()) lines.emplace_back("no network cards reported");
  if (n.simulated) lines.emplace_back("simulated data");
  return lines;
}

class Picture {
 public:
  void open(double width, double height) {
    out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
          "\" width=\"" + number(width) + "\" height=\"" + number(height) +
          "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n"
          "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  }
  void text(double x, double y, const std::string& s, double size, const char* color, bool bold = false,
            bool middle = false) {
    out += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" font-size=\"" + number(size) + "\" fill=\"" + color +
           "\"" + (bold ? " font-weight=\"bold\"" : "") + (middle ? " text-anchor=\"middle\"" : "") + ">" +
           escapedMarkup(s) + "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, double width, const char* color, const std::string& title) {
    out += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
           "\" stroke=\"" + color + "\" stroke-width=\"" + number(width) + "\"><title>" + escapedMarkup(title) +
           "</title></line>\n";
  }
  void box(double x, double y, double w, double h, const char* fill, const char* stroke) {
    out += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(w) + "\" height=\"" + number(h) +
           "\" rx=\"7\" fill=\"" + fill + "\" stroke=\"" + stroke + "\"/>\n";
  }
  std::string out;
};

std::string shortened(const std::string& s, size_t most) { return s.size() <= most ? s : s.substr(0, most - 1) + "…"; }

double heightOf(const NodeTopology& n, bool recorded) {
  return 40 + (n.gpus.empty() ? 0 : kCircle) + static_cast<double>(std::min(n.nics.size(), kNics)) * (kNicH + 6) +
         static_cast<double>(captions(n, recorded).size()) * kLine + 2 * kPad;
}

void drawNode(Picture& p, const Shape& shape, double x, double y, double height, bool recorded) {
  const NodeTopology& n = *shape.like;
  p.box(x, y, kPanelW - kPad, height - kPad, "#f7f9fb", "#d5dbe1");
  const std::string more = shape.nodes.size() > 1 ? " and " + std::to_string(shape.nodes.size() - 1) + " like it" : "";
  p.text(x + kPad, y + 26, shortened(shape.nodes.front(), 28) + more, 15, kInk, true);
  const double cx = x + (kPanelW - kPad) / 2, cy = y + 40 + kCircle / 2;
  std::map<int64_t, std::pair<double, double>> at;
  const size_t count = n.gpus.size();
  for (const auto& [index, device] : n.gpus) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(at.size()) / static_cast<double>(count);
    const double radius = count == 1 ? 0 : kRadius;
    at[index] = {cx + radius * std::sin(angle), cy - radius * std::cos(angle)};
  }
  double row = y + 40 + (count == 0 ? 0 : kCircle);
  for (size_t i = 0; i < n.nics.size() && i < kNics; ++i, row += kNicH + 6)
    for (const auto& [gpu, nearness] : n.nics[i].nearness)
      if (at.contains(gpu) && (nearness == "PIX" || nearness == "PXB"))
        p.line(at[gpu].first, at[gpu].second, cx, row + kNicH / 2, 1, "#0b69a3",
               "GPU " + std::to_string(gpu) + " – " + n.nics[i].name + ": " + nearness);
  for (const Link& l : n.links)
    if (at.contains(l.from) && at.contains(l.to))
      p.line(at[l.from].first, at[l.from].second, at[l.to].first, at[l.to].second,
             l.count == trace::kNull ? 1.2 : std::min(4.0, 1.2 + 0.1 * static_cast<double>(l.count)), colorOf(l.kind),
             "GPU " + std::to_string(l.from) + " – GPU " + std::to_string(l.to) + ": " + describe(l));
  for (const auto& [index, where] : at) {
    p.out += "<circle cx=\"" + number(where.first) + "\" cy=\"" + number(where.second) + "\" r=\"" + number(kGpu) +
             "\" fill=\"#eef6e3\" stroke=\"#4d8b00\" stroke-width=\"1.5\"/>\n";
    p.text(where.first, where.second + 5, std::to_string(index), 13, kInk, true, true);
  }
  row = y + 40 + (count == 0 ? 0 : kCircle);
  for (size_t i = 0; i < n.nics.size() && i < kNics; ++i, row += kNicH + 6) {
    const Nic& nic = n.nics[i];
    p.box(x + kPad, row, kPanelW - 3 * kPad, kNicH, "#e3f1fa", "#0b69a3");
    std::string near;
    for (const auto& [gpu, nearness] : nic.nearness)
      if (nearness == "PIX" || nearness == "PXB") near += (near.empty() ? ", near GPU " : " ") + std::to_string(gpu);
    p.text(x + 2 * kPad, row + 17,
           shortened(nic.name + " (" + nic.kind + (nic.state.empty() ? "" : ", " + nic.state) + ")" + speed(nic) + near,
                     54),
           11, kInk);
  }
  for (const std::string& line : captions(n, recorded)) {
    row += kLine;
    p.text(x + kPad, row - 3, shortened(line, 58), 11, kFine);
  }
}

}  // namespace

std::string topologySvg(const Topology& topology, bool recorded) {
  std::vector<Shape> shapes = shapesOf(topology);
  const size_t hidden = shapes.size() > kPanels ? shapes.size() - kPanels : 0;
  shapes.resize(shapes.size() - hidden);
  const size_t columns = std::clamp<size_t>(shapes.size(), 1, 4);
  double height = 0;
  for (const Shape& s : shapes) height = std::max(height, heightOf(*s.like, recorded));
  const size_t rows = (shapes.size() + columns - 1) / columns;
  const double width = std::max(480.0, static_cast<double>(columns) * kPanelW + kPad);
  Picture p;
  p.open(width, 64 + static_cast<double>(rows) * height + (hidden > 0 || shapes.empty() ? 30 : 0));
  size_t gpus = 0;
  for (const auto& [node, n] : topology) gpus += n.gpus.size();
  auto counted = [](size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  p.text(kPad, 30, counted(topology.size(), "node") + ", " + counted(gpus, "GPU"), 18, kInk, true);
  p.text(kPad, 50,
         recorded ? "GB/s in one direction, as reported by the driver unless marked as measured."
                  : "Network cards are known from recordings only: add trace=ID of a session.",
         11, kFine);
  for (size_t i = 0; i < shapes.size(); ++i)
    drawNode(p, shapes[i], kPad + static_cast<double>(i % columns) * kPanelW,
             64 + static_cast<double>(i / columns) * height, height, recorded);
  const double last = 64 + static_cast<double>(rows) * height + 18;
  if (shapes.empty()) p.text(kPad, last, "No node has reported its hardware.", 12, kFine);
  if (hidden > 0) p.text(kPad, last, std::to_string(hidden) + " more kinds of nodes are not shown.", 12, kFine);
  return p.out + "</svg>\n";
}

}  // namespace tracesmith::server
