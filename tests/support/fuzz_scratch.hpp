// Files for fuzzers of what is only read from files; removed at the end.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

namespace tracesmith::test {

/// The same path for the same name, of this process alone.
inline std::string scratch(const std::string& name) {
  static std::set<std::string> all;
  static const bool cleanup = std::atexit([] {
                                for (const std::string& path : all) ::unlink(path.c_str());
                              }) == 0;
  (void)cleanup;
  const char* dir = std::getenv("TMPDIR");
  const std::string path = std::string(dir ? dir : "/tmp") + "/fuzz." + std::to_string(::getpid()) + "." + name;
  all.insert(path);
  return path;
}

inline void writeScratch(const std::string& path, const std::string& bytes) {
  ::unlink(path.c_str());
  if (FILE* f = std::fopen(path.c_str(), "wb")) {
    std::fwrite(bytes.data(), 1, bytes.size(), f);
    std::fclose(f);
  }
}

}  // namespace tracesmith::test
