#include "cli/output.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "trace/layout.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

bool isTrace(const std::string& path) {
  Result<File> file = File::openRead(path);
  char magic[sizeof trace::kFileMagic];
  size_t got = 0;
  return file && file->readAt(0, magic, sizeof magic, got) && got == sizeof magic &&
         std::memcmp(magic, trace::kFileMagic, sizeof magic) == 0;
}

bool isBelow(const std::string& folder, const std::string& file) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return false;
  const fs::path above = fs::canonical(folder, failed), below = fs::canonical(file, failed);
  return !failed && std::mismatch(above.begin(), above.end(), below.begin(), below.end()).first == above.end();
}

}  // namespace

Status checkOutput(const std::string& output, const std::vector<std::string>& inputs, bool force) {
  std::error_code ignored;
  if (output == "-" || !fs::is_regular_file(output, ignored)) return {};
  const bool trace = isTrace(output);
  for (const std::string& input : inputs) {
    if (fs::equivalent(input, output, ignored)) return Status::invalid("the output would overwrite " + input);
    if (!trace && isBelow(input, output))
      return Status::invalid("the output would overwrite " + output + ", which is in the input folder " + input);
  }
  if (force || !trace) return {};
  return Status::invalid(output + " is a recording that is already there: choose another name, or give --force");
}

void addForce(Command& command, bool& force) {
  command.flag("--force", force, "Replace an existing recording of that name");
}

}  // namespace tracesmith::cli
