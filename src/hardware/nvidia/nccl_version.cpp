#include "hardware/nvidia/nccl_version.hpp"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace tracesmith::hardware {
namespace {

struct Place {
  const char* pattern;
  std::string_view before;  // the version begins behind this in the file's name
};
constexpr Place kPlaces[] = {
    {"/usr/lib/x86_64-linux-gnu/libnccl.so.*.*", "libnccl.so."},
    {"/usr/lib/aarch64-linux-gnu/libnccl.so.*.*", "libnccl.so."},
    {"/usr/lib64/libnccl.so.*.*", "libnccl.so."},
    {"/usr/local/cuda*/lib64/libnccl.so.*.*", "libnccl.so."},
    {"/usr/lib/python3*/*-packages/nvidia_nccl_cu*-*.dist-info", "-"},
    {"/usr/local/lib/python3*/*-packages/nvidia_nccl_cu*-*.dist-info", "-"},
    {"/opt/*/lib/python3*/site-packages/nvidia_nccl_cu*-*.dist-info", "-"},
};

std::vector<int> numbersOf(std::string_view version) {
  std::vector<int> numbers(1);
  for (char c : version) c == '.' ? numbers.push_back(0) : void(numbers.back() = numbers.back() * 10 + (c - '0'));
  return numbers;
}

/// "2.21.5" from "2.21.5.dist-info"; empty if it is no version.
std::string_view versionAt(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
  while (end > 0 && text[end - 1] == '.') --end;
  text = text.substr(0, end);
  return text.size() < 16 && text.find('.') != std::string_view::npos ? text : std::string_view();
}

}  // namespace

std::string installedNccl(const std::string& root) {
  std::string newest;
  for (const Place& place : kPlaces) {
    glob_t found{};
    if (::glob((root + place.pattern).c_str(), GLOB_NOSORT, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        std::string_view name = found.gl_pathv[i];
        name.remove_prefix(name.rfind('/') + 1);
        const std::string_view version = versionAt(name.substr(name.find(place.before) + place.before.size()));
        if (!version.empty() && (newest.empty() || numbersOf(newest) < numbersOf(version))) newest = version;
      }
    ::globfree(&found);
  }
  return newest;
}

}  // namespace tracesmith::hardware
