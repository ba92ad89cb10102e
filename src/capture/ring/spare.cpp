#include "capture/ring/spare.hpp"

#include <stdio.h>
#include <sys/stat.h>

namespace tracesmith::ring {

bool spareFolder(const char* folder, char* path, size_t size) {
  struct stat st, tmp;
  if (stat(folder, &st) != 0 || stat("/tmp", &tmp) != 0 || st.st_dev == tmp.st_dev) return false;
  snprintf(path, size, "/tmp/tracesmith-%u-%llx-%llx", st.st_uid, static_cast<unsigned long long>(st.st_dev),
           static_cast<unsigned long long>(st.st_ino));
  return true;
}

bool isGoodSpare(const char* folder, const char* spare) {
  struct stat st, own;
  return stat(folder, &own) == 0 && lstat(spare, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == own.st_uid &&
         (st.st_mode & 077) == 0;
}

}  // namespace tracesmith::ring
