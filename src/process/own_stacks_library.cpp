// libtracesmith_stacks.so: what the probe loads into its process when somebody asks for stacks who may not read them.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "process/own_stacks.hpp"

namespace {

bool writeAll(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0 && errno != EINTR) return false;
    if (n > 0) done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

/// 0, or an errno. The file appears whole, and only its owner may read it.
extern "C" __attribute__((visibility("default"))) int tracesmith_write_own_stacks(const char* file) {
  using namespace tracesmith::process;
  try {
    tracesmith::Result<Stacks> stacks = backtrace(::getpid(), {.python_only = true});
    if (!stacks) return EIO;
    for (ThreadStack& t : stacks->threads)
      if (t.name == "tracesmith") t.frames.clear();
    const std::string fresh = std::string(file) + ".new";
    ::unlink(fresh.c_str());
    const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    const bool good = writeAll(fd, ownStacksText(*stacks));
    const int error = good ? 0 : errno;
    ::close(fd);
    if (good && std::rename(fresh.c_str(), file) == 0) return 0;
    ::unlink(fresh.c_str());
    return good ? errno : error;
  } catch (...) {
    return ENOMEM;
  }
}
