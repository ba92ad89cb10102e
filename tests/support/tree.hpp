// Folders of small files, kept as one text: "path = content" (\n is a line break) and "path -> target of a link".
#pragma once

#include <string>

namespace tracesmith::test {

/// Makes the files of tests/data/hardware/trees/<name>.txt below `root`.
void makeTree(const std::string& name, const std::string& root);
/// Description of a machine for the stand-in of NVML: tests/data/hardware/nvml/<name>.txt.
std::string nvmlDescription(const std::string& name);
/// The stand-in itself.
std::string fakeNvml();

}  // namespace tracesmith::test
