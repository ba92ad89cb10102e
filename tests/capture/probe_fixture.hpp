// The probe with CUPTI, under `tracesmith run`, in a program that uses a stand-in for libcupti.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <vector>

#include "capture/ring/reader.hpp"
#include "capture/under_run.hpp"

namespace tracesmith {

using Commands = std::vector<std::string>;

class ProbeTest : public ::testing::Test {
 protected:
  /// The command line of a fake CUDA program under `tracesmith run`.
  Commands underRun(const Commands& commands, const Commands& flags = {}) const {
    Commands argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {"--", kBuild + "/bin/tests/fake_cuda"});
    argv.insert(argv.end(), commands.begin(), commands.end());
    return argv;
  }
  Environment environment(const Environment& more = {}) const {
    Environment all = {{"TRACESMITH_DIR", dir_ / "rings"},
                       {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"},
                       {"FAKE_CUDA_LOG", dir_ / "log"},
                       {"FAKE_OTHER_PROFILER", kBuild + "/lib/tests/libfake_other_profiler.so"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output run(const Commands& commands, const Commands& flags = {}, const Environment& more = {}) const {
    return test::runWith(environment(more), underRun(commands, flags));
  }

  std::string trace() const { return dir_ / "t.sbt"; }
  std::vector<Row> kernels() const { return rows(trace(), "events", "type", "kernel"); }

  /// What the program made, one line each, without what was lost.
  std::vector<std::string> made() const {
    std::vector<std::string> lines;
    std::istringstream in(test::readFile(dir_ / "log"));
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("lost")) lines.push_back(line);
    return lines;
  }
  size_t madeLost() const {
    std::istringstream in(test::readFile(dir_ / "log"));
    size_t n = 0;
    for (std::string line; std::getline(in, line);) n += line.starts_with("lost");
    return n;
  }
  /// The same lines, from the trace.
  std::vector<std::string> recorded(bool with_times = true) const {
    std::vector<std::string> lines;
    for (const Row& r : rows(trace(), "events"))
      if (r.s("type") != "marker") lines.push_back(line(r, with_times));
    return lines;
  }
  static std::string line(const Row& r, bool with_times) {
    auto number = [&](const char* column) { return r.null(column) ? "0" : std::to_string(r.i(column)); };
    std::string times = std::to_string(r.i("ts")) + "|" + std::to_string(r.i("ts") + r.i("dur"));
    if (!with_times) times = std::to_string(r.i("dur"));
    // The program gives every call a stream; the trace says it only of what ran on one.
    const bool host = r.null("stream");
    return r.s("type") + "|" + r.s("name") + "|" + times + "|" + number("correlation") + "|" +
           (host ? "7" : number("stream")) + "|" + number("device") + "|" + number("bytes") + "|" + number("graph") +
           "|" + number("graph_node") + "|" + number("tid");
  }
  void expectAllRecorded() const {
    std::vector<std::string> expected = made(), got = recorded();
    for (std::string& l : expected)  // overhead belongs to no stream
      if (l.starts_with("overhead")) l.replace(l.find("|0|0|0|0|0|0|"), 13, "|0|7|0|0|0|0|");
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, expected);
  }

  /// The ring of the one process of the job.
  std::unique_ptr<ring::RingReader> ringOfJob() const {
    std::unique_ptr<ring::RingReader> found;
    eventually([&] {
      std::error_code ignored;
      for (const auto& folder : std::filesystem::directory_iterator(dir_ / "rings", ignored))
        for (const std::string& path : ring::findRings(folder.path()))
          if (auto reader = ring::RingReader::open(path)) found = std::move(*reader);
      return found != nullptr;
    });
    return found;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TempDir dir_;
};

}  // namespace tracesmith
