#include "cli/screen.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/progress.hpp"

namespace tracesmith::cli {
namespace {

std::atomic<bool> g_stop{false};

}  // namespace

ScreenSize screenSize() {
  winsize now{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_col > 0 && now.ws_row > 0)
    return {now.ws_col, now.ws_row};
  ScreenSize size;
  if (const char* columns = std::getenv("COLUMNS")) size.width = std::strtoul(columns, nullptr, 10);
  if (const char* lines = std::getenv("LINES")) size.height = std::strtoul(lines, nullptr, 10);
  return size;
}

bool hasScreen() { return drawsOn(STDOUT_FILENO) && ::isatty(STDIN_FILENO); }

Screen::Screen() {
  for (int n : {SIGINT, SIGTERM, SIGHUP}) ::signal(n, [](int) { g_stop = true; });
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  std::printf("\x1b[?1049h\x1b[?25l");  // the other screen, no cursor
}

Screen::~Screen() {
  std::printf("\x1b[?25h\x1b[?1049l");
  std::fflush(stdout);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Screen::draw(const std::vector<std::string>& lines) {
  std::string out = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) out += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
  out += "\x1b[J";
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
}

bool Screen::keys(int wait_ms, std::string& pressed) {
  pressed.clear();
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, wait_ms) <= 0) return !g_stop;
  char bytes[32];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (n <= 0) return !g_stop && (input.revents & (POLLHUP | POLLERR)) == 0;
  pressed.assign(bytes, static_cast<size_t>(n));
  return !g_stop;
}

}  // namespace tracesmith::cli
