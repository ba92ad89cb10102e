// The files of the page, in the library itself: nothing is read from disk, nothing from other machines.
#pragma once

#include <span>
#include <string_view>

namespace tracesmith::server {

struct PageFile {
  std::string_view path;  ///< "/index.html", "/assets/…"
  std::string_view bytes, gzip;
};

/// Empty if the page was not built; kNoPage says why.
std::span<const PageFile> pageFiles();
extern const char* const kNoPage;

}  // namespace tracesmith::server
