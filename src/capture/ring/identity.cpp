#include "capture/ring/identity.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tracesmith::ring {

uint64_t pidNamespace() {
  struct stat st;
  return stat("/proc/self/ns/pid", &st) == 0 ? static_cast<uint64_t>(st.st_ino) : 0;
}

ProcessFacts processFacts(pid_t pid) {
  char text[1024];
  snprintf(text, sizeof text, "/proc/%d/stat", static_cast<int>(pid));
  const int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return {};
  text[n] = 0;
  const char* at = strrchr(text, ')');  // the name before it may hold anything
  if (!at || at[1] != ' ') return {};
  ProcessFacts facts{at[2], 0};
  int field = 3;  // the state; the start is the 22nd
  for (at += 2; *at && field < 22; ++at) field += *at == ' ';
  if (field == 22) facts.start_ticks = strtoull(at, nullptr, 10);
  return facts;
}

}  // namespace tracesmith::ring
