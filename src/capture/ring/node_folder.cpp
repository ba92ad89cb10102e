#include "capture/ring/node_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "capture/ring/reader.hpp"

namespace tracesmith::ring {

Result<std::string> nodeFolder() {
  Result<std::string> own = ringFolder();
  if (!own) return own;
  const std::filesystem::path folder(*own);
  if (!folder.filename().string().starts_with(kRunPrefix)) return own;
  const std::string around = folder.parent_path();
  struct stat st {};
  const bool good =
      ::lstat(around.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::getuid() && (st.st_mode & 077) == 0;
  return good ? Result<std::string>(around) : own;
}

}  // namespace tracesmith::ring
