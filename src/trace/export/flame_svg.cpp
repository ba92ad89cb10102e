// A flame graph that needs nothing but a browser: what calls is above what is called. Without scripts it is a drawing
// with tooltips.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "trace/export/flame.hpp"
#include "trace/export/flame_page.hpp"

namespace tracesmith::trace {
namespace {

constexpr double kNarrowest = 0.0004;  // of the width; narrower frames are left out
constexpr double kNameless = 0.02;     // no room for a name, as long as no script says how wide the window is
constexpr int kRow = 18, kTop = 84, kBottom = 34;

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", v);
  return text;
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, part < 0.1 ? "%.2f %%" : "%.1f %%", 100 * part);
  return text;
}

/// The same for all frames of one file.
unsigned toneOf(const std::string& name) {
  const size_t place = std::min(name.rfind(isNativeFrame(name) ? " [" : " ("), name.size());
  uint32_t hash = 2166136261u;
  for (size_t i = place; i < name.size() && name[i] != ':'; ++i)
    hash = (hash ^ static_cast<unsigned char>(name[i])) * 16777619u;
  return (hash >> 8) % 5;
}

class Drawing {
 public:
  Drawing(const FlameTree& tree, const FlameCaption& caption) : tree_(tree), caption_(caption) {
    if (tree.compared) scale_ = {std::max(1.0, tree.looks[0]), std::max(1.0, tree.looks[1])};
    whole_ = weight(tree.root());
  }

  std::string draw() {
    frames();
    std::string out = head(kTop + (deepest_ + 1) * kRow + kBottom);
    out += body_;
    foot(out);
    out += "<script><![CDATA[" + std::string(kFlameScript) + "]]></script>\n</svg>\n";
    return out;
  }

 private:
  struct Place {
    uint32_t node;
    int depth;
    double x;  // of the whole width
  };

  double share(const FlameNode& n, size_t k) const { return static_cast<double>(n.total[k]) / scale_[k]; }
  double weight(const FlameNode& n) const { return share(n, 0) + share(n, 1); }

  void frames() {
    std::vector<Place> open = {{0, 0, 0}};
    while (!open.empty()) {
      const Place p = open.back();
      open.pop_back();
      frame(p);
      const FlameNode& n = tree_.nodes[p.node];
      std::vector<Place> below;
      double x = p.x;
      for (const uint32_t b : n.below) {
        const double width = weight(tree_.nodes[b]) / whole_;
        if (width >= kNarrowest)
          below.push_back({b, p.depth + 1, x});
        else
          ++left_out_;
        x += width;
      }
      open.insert(open.end(), below.rbegin(), below.rend());
    }
  }

  void frame(const Place& p) {
    const FlameNode& n = tree_.nodes[p.node];
    const std::string& name = tree_.names[n.name];
    const double width = weight(n) / whole_;
    deepest_ = std::max(deepest_, p.depth);
    body_ += "<svg class=\"f\" x=\"" + number(100 * p.x) + "%\" y=\"" + std::to_string(kTop + p.depth * kRow) +
             "\" width=\"" + number(100 * width) + "%\" height=\"" + std::to_string(kRow - 1) + "\" data-d=\"" +
             std::to_string(p.depth) + "\" data-a=\"" + std::to_string(n.total[0]) + "\" data-b=\"" +
             std::to_string(n.total[1]) + "\"><title>" + escapedMarkup(name) + ": " + tooltip(n) +
             "</title><rect width=\"100%\" height=\"100%\"" + fill(n, name, p.depth) + "/><text x=\"3\" y=\"12.5\"" +
             (width < kNameless ? " style=\"display:none\"" : "") + ">" + escapedMarkup(name) + "</text></svg>\n";
  }

  std::string tooltip(const FlameNode& n) const {
    if (tree_.compared)
      return rank(0) + " " + percent(share(n, 0)) + ", " + rank(1) + " " + percent(share(n, 1)) + " of its time";
    return counted(n.all(), "sample") + ", " + percent(weight(n) / whole_);
  }

  std::string rank(size_t k) const {
    return "rank " + std::to_string(k == 0 ? tree_.compared->first : tree_.compared->second);
  }

  std::string fill(const FlameNode& n, const std::string& name, int depth) const {
    if (depth == 0) return " class=\"under\"";
    if (tree_.compared) {
      const double a = share(n, 0), b = share(n, 1), more = (b - a) / std::max(a + b, 1e-12);
      if (std::abs(more) < 0.05) return " class=\"g\"";
      return std::string(" class=\"") + (more > 0 ? "r" : "b") + "\" fill-opacity=\"" +
             number(0.2 + 0.8 * std::abs(more)) + "\"";
    }
    const bool waits = n.total[1] > n.total[0];
    const char* kind = isNativeFrame(name) ? (waits ? "v" : "n") : (waits ? "w" : "c");
    return std::string(" class=\"") + kind + std::to_string(toneOf(name)) + "\"";
  }

  std::string head(int height) const {
    const bool diff = tree_.compared.has_value();
    const std::string first = diff ? rank(0) : "On CPU", second = diff ? rank(1) : "Waiting";
    const std::string rest = "Click a frame to zoom in, press / to search, Esc to go back";
    std::string out =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\" "
        "height=\"" +
        std::to_string(height) + "\" data-names=\"" + first + "|" + second + "\" data-la=\"" + number(scale_[0]) +
        "\" data-lb=\"" + number(scale_[1]) + "\" data-diff=\"" + (diff ? "1" : "0") + "\">\n<style>" + kFlameStyle +
        "</style>\n<rect id=\"back\" width=\"100%\" height=\"100%\"/>\n";
    out += "<text id=\"title\" x=\"10\" y=\"24\">" + escapedMarkup(caption_.title) + "</text>\n";
    out += "<text class=\"dim\" x=\"10\" y=\"44\">" + escapedMarkup(caption_.subtitle) + "</text>\n";
    out += "<text id=\"detail\" x=\"10\" y=\"72\" data-rest=\"" + rest + "\">" + rest + "</text>\n";
    out +=
        "<svg x=\"100%\" width=\"1\" height=\"80\" overflow=\"visible\"><text id=\"found\" class=\"dim\" x=\"-10\" "
        "y=\"50\" "
        "text-anchor=\"end\"></text>\n<foreignObject x=\"-390\" y=\"8\" width=\"382\" height=\"28\"><div "
        "xmlns=\"http://www.w3.org/1999/xhtml\" class=\"tools\"><select id=\"mode\"><option value=\"all\">" +
        std::string(diff ? "Both" : "All") + "</option><option value=\"first\">" + first +
        "</option><option value=\"second\">" + second +
        "</option></select><input id=\"search\" type=\"search\" placeholder=\"Search\"/><button "
        "id=\"reset\">Reset zoom</button></div></foreignObject></svg>\n";
    return out;
  }

  void foot(std::string& out) const {
    const int y = kTop + (deepest_ + 1) * kRow + 20;
    double x = 10;
    const auto key = [&](const char* style, const std::string& text, double width) {
      out += "<rect x=\"" + number(x) + "\" y=\"" + std::to_string(y - 10) + "\" width=\"12\" height=\"12\" class=\"" +
             style + "\"/><text class=\"dim\" x=\"" + number(x + 18) + "\" y=\"" + std::to_string(y) + "\">" + text +
             "</text>\n";
      x += width;
    };
    if (tree_.compared) {
      key("b", "more in " + rank(0), 140);
      key("r", "more in " + rank(1), 140);
      key("g", "alike", 70);
    } else {
      key("c0", "mostly on CPU", 120);
      key("w0", "mostly waiting", 120);
      key("n0", "native, on CPU", 120);
      key("v0", "native, waiting", 120);
    }
    std::string note = caption_.note;
    if (left_out_ > 0)
      note += (note.empty() ? "" : "; ") + std::to_string(left_out_) + (left_out_ == 1 ? " frame" : " frames") +
              " narrower than 0.04 % not drawn";
    out += "<text class=\"dim\" x=\"" + number(x) + "\" y=\"" + std::to_string(y) + "\">" + escapedMarkup(note) +
           "</text>\n";
  }

  const FlameTree& tree_;
  const FlameCaption& caption_;
  std::array<double, 2> scale_ = {1, 1};
  double whole_ = 0;
  int deepest_ = 0;
  uint64_t left_out_ = 0;
  std::string body_;
};

}  // namespace

std::string flameSvg(const FlameTree& tree, const FlameCaption& caption) { return Drawing(tree, caption).draw(); }

}  // namespace tracesmith::trace
