// Runs real processes for tests: the tracesmith binary, protoc, anything.
#pragma once

#include <string>
#include <vector>

namespace tracesmith::test {

struct Output {
  int rc = -1;  ///< exit code; 128 + signal if killed
  std::string out, err;
};

/// Runs argv[0] (searched in PATH) with its arguments and waits for it.
Output run(const std::vector<std::string>& argv, const std::string& input = "");
/// The tracesmith binary of this build, with these arguments.
Output tracesmith(std::vector<std::string> args, const std::string& input = "");

/// A folder for one test, removed at its end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string readFile(const std::string& path);
void writeFile(const std::string& path, const std::string& bytes);
bool exists(const std::string& path);

/// ../shared beside the checkout, or "" where there is none: real traces that are not part of the repository.
std::string sharedDir();

}  // namespace tracesmith::test
