// What every benchmark needs: a piece of work in a process of its own, with its CPU time, wall time and peak memory.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tracesmith::bench {

struct Cost {
  double cpu_s = 0, wall_s = 0, peak_mb = 0;
};

/// Runs work() in a child process; a non-zero result ends the benchmark.
template <typename Work>
Cost measure(Work work) {
  std::fflush(nullptr);
  auto start = std::chrono::steady_clock::now();
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(work());
  int status = 0;
  rusage usage{};
  ::wait4(pid, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "a measured process failed (status %d)\n", status);
    std::exit(1);
  }
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  Cost cost;
  cost.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cost.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  cost.peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  return cost;
}

/// `text` says what may be given: --help prints it and ends the benchmark, an option that is not in it too.
inline void usage(int argc, char** argv, std::string_view text) {
  auto named = [&](std::string_view option) {
    for (size_t at = text.find(option); at != std::string_view::npos; at = text.find(option, at + 1))
      if (const size_t end = at + option.size();
          end == text.size() || !(std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '-'))
        return true;
    return false;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool help = word == "--help";
    if (!help && (!word.starts_with("--") || named(word))) continue;
    if (!help) std::fprintf(stderr, "unknown option %s\n", argv[i]);
    std::fprintf(help ? stdout : stderr, "usage: %.*s\n", static_cast<int>(text.size()), text.data());
    std::exit(help ? 0 : 2);
  }
}

/// Value of "--name value" or the default; true for a flag that is there.
inline std::string option(int argc, char** argv, std::string_view name, std::string fallback) {
  for (int i = 1; i + 1 < argc; ++i)
    if (name == argv[i]) return argv[i + 1];
  return fallback;
}
inline bool flag(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i)
    if (name == argv[i]) return true;
  return false;
}

}  // namespace tracesmith::bench
