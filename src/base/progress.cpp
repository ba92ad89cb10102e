#include "base/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tracesmith {

using std::chrono::steady_clock;

bool drawsOn(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term && *term && std::string_view(term) != "dumb";
}

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(drawsOn(STDERR_FILENO)), start_(steady_clock::now()), last_(start_) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::update(uint64_t done, uint64_t total) {
  if (!terminal_ || total == 0) return;
  auto now = steady_clock::now();
  if (now - start_ < std::chrono::seconds(1) || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  double seconds = std::chrono::duration<double>(now - start_).count();
  constexpr int kWidth = 30;
  std::string bar(static_cast<size_t>(part * kWidth), '#');
  bar.resize(kWidth, '.');
  std::fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f s left\033[K", what_.c_str(), bar.c_str(), part * 100,
               part > 0 ? seconds / part - seconds : 0.0);
  std::fflush(stderr);
}

}  // namespace tracesmith
