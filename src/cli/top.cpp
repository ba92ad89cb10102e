// tracesmith top: this machine's GPUs and what runs on them, in a terminal.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.hpp"
#include "cli/places.hpp"
#include "cli/screen.hpp"
#include "cli/terminal.hpp"
#include "cli/top_screen.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  hardware::SamplerOptions sampler;
  std::string sort = "memory";
  bool once = false, json = false;
  int interval_ms = 1000;
};

void fitTerminal(TopView& view) {
  const ScreenSize size = screenSize();
  view.width = std::max<size_t>(20, size.width);
  view.height = std::max<size_t>(6, size.height);
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
  view.color = takesColor();
  for (size_t i = 0; const char* name : {"memory", "gpu", "pid", "rank", "user"}) {
    if (o.sort == name) view.sort = static_cast<TopSort>(i);
    ++i;
  }
  const bool once = o.once || o.json || !hasScreen();
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
  Screen screen;
  std::string pressed;
  for (bool go = true; go;) {
    fitTerminal(view);
    const hardware::Latest::State state = latest.state();
    screen.draw(topLines(state, topProcesses(state, o.sampler.places.root, recorded.read()), view));
    go = screen.keys(state.found ? o.interval_ms : 100, pressed);
    for (size_t i = 0; i < pressed.size() && go; ++i) go = key(pressed[i], view);
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
