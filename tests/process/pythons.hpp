// The Python interpreters of this machine, and processes of them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process/backtrace.hpp"
#include "support/child.hpp"

#include <gtest/gtest.h>

namespace tracesmith::test {

/// One of each version from 3.8 on: of the system, and of pyenv where there is one. By "3.11".
inline const std::map<std::string, std::string>& pythons() {
  static const std::map<std::string, std::string> found = [] {
    std::map<std::string, std::string> all;
    std::vector<std::string> folders = {"/usr/bin", "/usr/local/bin"};
    if (const char* home = std::getenv("HOME")) {
      std::error_code ignored;
      for (const auto& e : std::filesystem::directory_iterator(std::string(home) + "/.pyenv/versions", ignored))
        folders.push_back(e.path() / "bin");
    }
    for (const std::string& folder : folders)
      for (int minor = 8; minor <= 14; ++minor) {
        const std::string version = "3." + std::to_string(minor), path = folder + "/python" + version;
        if (exists(path)) all.try_emplace(version, path);
      }
    return all;
  }();
  return found;
}

/// For tests that run once for each of them.
inline std::vector<std::string> pythonVersions() {
  std::vector<std::string> all;
  for (const auto& [version, path] : pythons()) all.push_back(version);
  return all;
}
inline std::string nameOfVersion(const testing::TestParamInfo<std::string>& version) {
  return "Python" + version.param.substr(0, 1) + "_" + version.param.substr(2);
}

/// A process that runs this program, once it has printed "ready".
inline std::unique_ptr<Child> startPython(const std::string& python, const std::string& program,
                                          const Environment& environment = {}) {
  auto child = std::make_unique<Child>(std::vector<std::string>{python, "-c", "import sys\n" + program}, environment);
  EXPECT_TRUE(eventually([&] { return child->out().find("ready") != std::string::npos || !child->running(); }));
  EXPECT_TRUE(child->running()) << child->err();
  return child;
}

inline const char* kReady = "sys.stdout.write('ready'); sys.stdout.flush()\n";

/// The process's first thread, once its stack satisfies the condition.
template <typename Condition>
process::ThreadStack waitForStack(pid_t pid, Condition condition, const process::BacktraceOptions& options = {}) {
  process::ThreadStack last;
  EXPECT_TRUE(eventually([&] {
    Result<process::Stacks> stacks = process::backtrace(pid, options);
    if (!stacks || stacks->threads.empty()) return false;
    last = stacks->threads[0];
    return condition(last);
  }));
  return last;
}

}  // namespace tracesmith::test
