#include "trace/export/export.hpp"

namespace tracesmith::trace {

std::span<const ExportFormat> exportFormats() {
  static constexpr ExportFormat kFormats[] = {
#define WHOLE(name, function, endings, about) {#name, endings, about, function, nullptr},
#define TABLE(name, function, endings, about) {#name, endings, about, nullptr, function},
#include "trace/export/formats.def"
  };
  return kFormats;
}

bool hasEnding(std::string_view file, std::string_view endings) {
  while (!endings.empty()) {
    const std::string_view one = endings.substr(0, endings.find(' '));
    if (file.ends_with(one)) return true;
    endings.remove_prefix(std::min(one.size() + 1, endings.size()));
  }
  return false;
}

}  // namespace tracesmith::trace
