// A line of `tracesmith top`.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/terminal.hpp"
#include "cli/top_screen.hpp"

namespace tracesmith::cli {

/// Text that knows how wide it is on the screen: colours take no room.
class Line {
 public:
  explicit Line(const TopView& view) : view_(view) {}
  Line& add(const std::string& text, const char* color = nullptr) {
    const size_t room = view_.width - std::min(view_.width, used_);
    std::string fits = displayWidth(text) <= room ? text : shorten(text, room);
    used_ += displayWidth(fits);
    if (color && view_.color && !fits.empty()) fits = std::string(color) + fits + "\x1b[0m";
    out_ += fits;
    return *this;
  }
  Line& to(size_t column) { return used_ < column ? add(std::string(column - used_, ' ')) : *this; }
  size_t used() const { return used_; }
  const std::string& text() const { return out_; }

 private:
  const TopView& view_;
  std::string out_;
  size_t used_ = 0;
};

inline constexpr const char *kGreen = "\x1b[32m", *kYellow = "\x1b[33m", *kRed = "\x1b[31m", *kDim = "\x1b[2m",
                            *kBold = "\x1b[1m", *kCyan = "\x1b[36m";

inline std::string format(const char* pattern, double v) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, pattern, v);
  return buffer;
}

}  // namespace tracesmith::cli
