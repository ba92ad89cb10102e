// Drawings as SVG, PDF or PNG, by cairo, which is loaded when something is drawn.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// 0xRRGGBB
using Color = unsigned;

class Canvas {
 public:
  enum class Format { svg, pdf, png };
  /// By the ending of a file's name; false if it is none of them.
  static bool formatOf(const std::string& path, Format& format);

  /// Draws into a file. Sizes are points, from the upper left corner.
  static Result<std::unique_ptr<Canvas>> create(const std::string& path, Format format, double width, double height);
  ~Canvas();

  enum class Align { left, middle, right };
  void text(double x, double y, double size, const std::string& text, Align align = Align::left);
  void line(const std::vector<std::pair<double, double>>& points, double width, Color color);
  void box(double x, double y, double width, double height, Color color);
  /// The file is complete after this, and only then.
  Status finish();

 private:
  Canvas() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::trace
