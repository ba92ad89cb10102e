// A terminal that a command draws on again and again until the user has seen enough.
#pragma once

#include <termios.h>

#include <cstddef>
#include <string>
#include <vector>

namespace tracesmith::cli {

/// Columns and lines of the terminal; those of COLUMNS and LINES where there is none, else 80 and 24.
struct ScreenSize {
  size_t width = 80, height = 24;
};
ScreenSize screenSize();

/// Whether there is a terminal to draw on and keys to read.
bool hasScreen();

/// The screen is ours until it goes out of scope, whatever happens in between. Its signals (Ctrl-C among them) end
/// keys().
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// No more lines than fit; the caller knows their number.
  void draw(const std::vector<std::string>& lines);
  /// Keys that were pressed within so long; empty: none was. False: it is over.
  bool keys(int wait_ms, std::string& pressed);

 private:
  termios before_{};
};

}  // namespace tracesmith::cli
