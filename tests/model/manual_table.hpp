// Tables of the manual that are made from declarations in the code.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/process.hpp"

namespace tracesmith::test {

/// The table in docs/analysis.md (or another manual) with this heading (below `section`) has these rows.
/// scripts/update-tables writes them there.
inline void expectTable(const std::string& heading, const std::string& rows, const std::string& section = "",
                        const std::string& manual = "analysis.md") {
  const std::string path = TRACESMITH_SOURCE_DIR "/docs/" + manual, whole = readFile(path);
  size_t from = whole.find(section);
  if (from != std::string::npos) from = whole.find(heading, from);
  ASSERT_NE(from, std::string::npos) << section << heading;
  from = whole.find('\n', from + heading.size() + 1) + 1;  // below the line of dashes
  const size_t to = whole.find("\n\n", from - 1) + 1;
  if (std::getenv("TRACESMITH_UPDATE_GOLDEN")) writeFile(path, whole.substr(0, from) + rows + whole.substr(to));
  EXPECT_EQ(readFile(path).substr(from, rows.size() + 1), rows + "\n") << "run scripts/update-tables";
}

}  // namespace tracesmith::test
