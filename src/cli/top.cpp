// tracesmith top: this machine's GPUs and what runs on them, in a terminal.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/places.hpp"
#include "cli/top_screen.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  hardware::SamplerOptions sampler;
  std::string sort = "memory";
  bool once = false, json = false;
  int interval_ms = 1000;
};

std::atomic<bool> g_stop{false};

/// The screen is ours until it goes out of scope, whatever happens in between.
class Screen {
 public:
  Screen() {
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    std::printf("\x1b[?1049h\x1b[?25l");  // the other screen, no cursor
  }
  ~Screen() {
    std::printf("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  void draw(const std::vector<std::string>& lines) {
    std::string out = "\x1b[H";
    for (size_t i = 0; i < lines.size(); ++i) out += lines[i] + "\x1b[K" + (i + 1 < lines.size() ? "\r\n" : "");
    out += "\x1b[J";
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }

 private:
  termios before_{};
};

void fitTerminal(TopView& view) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    view.width = std::max<size_t>(20, size.ws_col);
    view.height = std::max<size_t>(6, size.ws_row);
    return;
  }
  if (const char* columns = std::getenv("COLUMNS"))
    view.width = std::max<size_t>(20, std::strtoul(columns, nullptr, 10));
  if (const char* rows = std::getenv("LINES")) view.height = std::max<size_t>(6, std::strtoul(rows, nullptr, 10));
}

/// False: quit.
bool key(char c, TopView& view) {
  switch (c) {
    case 'q':
    case 'Q':
    case 3:
      return false;
    case 'm':
      view.sort = TopSort::memory;
      break;
    case 'g':
      view.sort = TopSort::gpu;
      break;
    case 'p':
      view.sort = TopSort::pid;
      break;
    case 'r':
      view.sort = TopSort::rank;
      break;
    case 'u':
      view.sort = TopSort::user;
      break;
    case 'A':  // the last byte of an arrow key
    case 'k':
      view.scroll = std::max(0, view.scroll - 1);
      break;
    case 'B':
    case 'j':
      ++view.scroll;
      break;
    default:
      break;
  }
  return true;
}

int run(const Options& o) {
  TopView view;
  view.color = !std::getenv("NO_COLOR");
  for (size_t i = 0; const char* name : {"memory", "gpu", "pid", "rank", "user"}) {
    if (o.sort == name) view.sort = static_cast<TopSort>(i);
    ++i;
  }
  const bool once = o.once || o.json || !::isatty(STDOUT_FILENO) || !::isatty(STDIN_FILENO);
  hardware::Latest latest(200);
  hardware::Sampler sampler(o.sampler, latest);
  capture::ProcessesNow recorded;
  sampler.start();
  if (once) {
    (void)sampler.waitForInventory(o.sampler.hang_ms);
    // Rates need two readings.
    std::this_thread::sleep_for(std::chrono::milliseconds(o.sampler.slow_ms + 2 * o.sampler.fast_ms + 100));
    const hardware::Latest::State state = latest.state();
    std::vector<TopProcess> processes = topProcesses(state, o.sampler.places.root, recorded.read());
    fitTerminal(view);
    view.color &= ::isatty(STDOUT_FILENO) != 0;
    if (!::isatty(STDOUT_FILENO) && !std::getenv("LINES")) {
      view.whole = true;
      view.height = SIZE_MAX / 2;
    }
    if (o.json)
      std::printf("%s\n", topJson(state, processes).c_str());
    else
      for (const std::string& line : topLines(state, std::move(processes), view)) std::printf("%s\n", line.c_str());
    return 0;
  }
  for (int n : {SIGINT, SIGTERM, SIGHUP}) ::signal(n, [](int) { g_stop = true; });
  Screen screen;
  for (bool go = true; go && !g_stop;) {
    fitTerminal(view);
    const hardware::Latest::State state = latest.state();
    screen.draw(topLines(state, topProcesses(state, o.sampler.places.root, recorded.read()), view));
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, state.found ? o.interval_ms : 100) <= 0) continue;
    char keys[32];
    const ssize_t n = ::read(STDIN_FILENO, keys, sizeof keys);
    if (n <= 0 && (input.revents & (POLLHUP | POLLERR))) break;
    for (ssize_t i = 0; i < n && go; ++i) go = key(keys[i], view);
  }
  return 0;
}

}  // namespace

void addTop(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("top", "Watch this machine's GPUs and what runs on them");
  addPlaces(command, o->sampler.places);
  o->sampler.fast_ms = 500;
  command.option("--interval", o->interval_ms, "Interval between updates, in ms")
      .showDefault()
      .check(range(100, 60000));
  command.option("--sort", o->sort, "Sort processes by")
      .showDefault()
      .check(oneOf({"memory", "gpu", "pid", "rank", "user"}));
  command.flag("--once", o->once, "Print once and exit; the default if the output is not a terminal");
  command.flag("--json", o->json, "Print the latest values once, as JSON");
  command.footer(
      "Keys: q quits; m, g, p, r, u sort the processes; arrows scroll. NO_COLOR=1 turns colours off.\n\nExamples:  "
      "tracesmith top\n           tracesmith top --json | jq '.processes'");
  command.run([o] { return run(*o); });
}

}  // namespace tracesmith::cli
