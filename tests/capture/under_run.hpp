// What tests of programs under `tracesmith run` and the probe have in common.
#pragma once

#include <string>

#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"

namespace tracesmith {

using test::Child;
using test::Environment;
using test::eventually;
using test::losses;
using test::Output;
using test::Row;
using test::rows;
using test::TempDir;

inline const std::string kBuild = TRACESMITH_BUILD_DIR;

}  // namespace tracesmith
