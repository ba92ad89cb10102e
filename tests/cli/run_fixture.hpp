// Commands under `tracesmith run`, with a CUPTI that stands in for the real one.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "capture/ring/reader.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"

namespace tracesmith {

using test::Child;
using test::Environment;
using test::eventually;
using test::exists;
using test::Output;
using test::Row;
using test::rows;
using test::TempDir;
using Command = std::vector<std::string>;

inline const std::string kBuild = TRACESMITH_BUILD_DIR;
inline const std::string kFakeCuda = kBuild + "/bin/tests/fake_cuda";
inline const std::string kOther = kBuild + "/lib/tests/libfake_other_profiler.so";

class RunTest : public ::testing::Test {
 protected:
  Command underRun(const Command& command, const Command& flags = {}) const {
    Command argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back("--");
    argv.insert(argv.end(), command.begin(), command.end());
    return argv;
  }
  Environment environment(const Environment& more = {}) const {
    Environment all = {{"TRACESMITH_DIR", rings()}, {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output run(const Command& command, const Command& flags = {}, const Environment& more = {}) const {
    return test::runWith(environment(more), underRun(command, flags));
  }
  Output shell(const std::string& script, const Environment& more = {}) const {
    return run({"sh", "-c", script}, {}, more);
  }
  Output record(const Command& arguments) const {
    Command argv = {TRACESMITH_BIN, "record", "--force", "-o", dir_ / "r.sbt"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return test::runWith(environment(), argv);
  }

  std::string trace() const { return dir_ / "t.sbt"; }
  std::string rings() const { return dir_ / "rings"; }
  size_t kernels(const std::string& name = "t.sbt") const {
    return rows(dir_ / name, "events", "type", "kernel").size();
  }
  size_t ringFolders() const {
    size_t n = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(rings(), ignored)) n += entry.is_directory();
    return n;
  }
  std::unique_ptr<ring::RingReader> ringOfJob() const {
    std::unique_ptr<ring::RingReader> found;
    eventually([&] {
      std::error_code ignored;
      for (const auto& folder : std::filesystem::directory_iterator(rings(), ignored))
        for (const std::string& path : ring::findRings(folder.path()))
          if (auto reader = ring::RingReader::open(path)) found = std::move(*reader);
      return found != nullptr;
    });
    return found;
  }
  static size_t kernelsIn(const ring::RingReader& ring) {
    size_t n = 0;
    ring.snapshot([&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::kernel; });
    return n;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TempDir dir_;
};

}  // namespace tracesmith
