// An engine as the program opens it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/interface_versions.hpp"
#include "query/engine.hpp"

extern "C" tracesmith::query::Engine* tracesmithCreateQueryEngine(const char* version, const char** why);

namespace tracesmith::query {

inline std::unique_ptr<Engine> openEngine(const std::vector<std::string>& files, const EngineOptions& options = {}) {
  const char* why = "";
  std::unique_ptr<Engine> engine(tracesmithCreateQueryEngine(kQueryInterface, &why));
  EXPECT_TRUE(engine) << why;
  Status s = engine->open(files, options);
  EXPECT_TRUE(s) << s.message();
  return engine;
}

/// The result as CSV without its heading.
inline std::string ask(Engine& engine, const std::string& sql, Format format = Format::kCsv) {
  std::string out;
  RunOptions options;
  options.format = format;
  options.write = [&](std::string_view bytes) {
    out += bytes;
    return Status();
  };
  RunReport report;
  Status s = engine.run(sql, options, report);
  if (!s) return "error: " + s.message();
  return format == Format::kCsv ? out.substr(out.find('\n') + 1) : out;
}

}  // namespace tracesmith::query
