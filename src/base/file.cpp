#include "base/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tracesmith {
namespace {

/// Traces hold command lines and names: nobody else reads them unless their owner says so.
constexpr mode_t kPrivate = 0600, kPrivateFolder = 0700;

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// The name of an open file that may have none of its own.
std::string pathOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

Status errnoStatus(std::string_view what, const std::string& path) {
  int error = errno;
  return {error == ENOENT ? Code::kNotFound : Code::kIo,
          "cannot " + std::string(what) + " " + path + ": " + std::strerror(error)};
}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<File> File::openRead(const std::string& path) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd_ < 0) return errnoStatus("open", path);
  struct stat st;
  if (::fstat(file.fd_, &st) == 0 && S_ISDIR(st.st_mode)) return Status::invalid(path + " is a folder");
  return file;
}

Result<File> File::create(const std::string& path) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kPrivate);
  if (file.fd_ < 0) return errnoStatus("create", path);
  return file;
}

Result<File> File::openAppend(const std::string& path) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kPrivate);
  if (file.fd_ < 0) return errnoStatus("open", path);
  return file;
}

Result<File> File::inMemory() {
  File file;
  file.fd_ = ::memfd_create("tracesmith", MFD_CLOEXEC);
  if (file.fd_ < 0) return errnoStatus("create", "a file in memory");
  file.path_ = pathOf(file.fd_);
  return file;
}

Result<File> File::standardOutput() {
  File file;
  file.path_ = "standard output";
  file.fd_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (file.fd_ < 0) return errnoStatus("write to", file.path_);
  return file;
}

Result<uint64_t> File::size() const {
  struct stat st;
  if (::fstat(fd_, &st) != 0) return errnoStatus("stat", path_);
  return static_cast<uint64_t>(st.st_size);
}

Status File::readAt(uint64_t offset, void* buffer, size_t size, size_t& got) const {
  got = 0;
  while (got < size) {
    ssize_t n = ::pread(fd_, static_cast<char*>(buffer) + got, size - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoStatus("read", path_);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return {};
}

Status File::readNext(void* buffer, size_t size, size_t& got) const {
  for (;;) {
    ssize_t n = ::read(fd_, buffer, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoStatus("read", path_);
    got = static_cast<size_t>(n);
    return {};
  }
}

Status File::write(const void* data, size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::write(fd_, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoStatus("write", path_);
    p += n;
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status File::sync() {
  if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) return errnoStatus("sync", path_);
  return {};
}

Status File::close() {
  if (fd_ < 0) return {};
  int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) return errnoStatus("close", path_);
  return {};
}

Result<File> File::createWithoutName(const std::string& path) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(folderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kPrivate);
  if (file.fd_ < 0) return errnoStatus("create", path);
  if (::access(pathOf(file.fd_).c_str(), F_OK) != 0) return errnoStatus("create", path);  // it could get no name later
  return file;
}

Status makePrivateFolder(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) {
    const std::string above = folderOf(path);
    if (errno == ENOENT && ::stat(above.c_str(), &st) != 0) TS_TRY(makePrivateFolder(above));
    if (::mkdir(path.c_str(), kPrivateFolder) != 0 && errno != EEXIST) return errnoStatus("create", path);
    return {};
  }
  if (!S_ISDIR(st.st_mode)) return Status::invalid(path + " is not a folder");
  const bool open = (st.st_mode & 0777 & ~kPrivateFolder) != 0 && st.st_uid == ::geteuid();
  if (open && ::chmod(path.c_str(), kPrivateFolder) != 0) return errnoStatus("change the mode of", path);
  return {};
}

OutputFile::~OutputFile() {
  if (file_.isOpen() && !work_path_.empty() && !nameless_) ::unlink(work_path_.c_str());
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  OutputFile out;
  out.path_ = path;
  struct stat st;
  const bool exists = ::stat(path.c_str(), &st) == 0, special = exists && !S_ISREG(st.st_mode);
  if (special && S_ISDIR(st.st_mode)) return Status::invalid(path + " is a folder");
  Result<File> file = special ? File::create(path) : File::createWithoutName(path);
  out.nameless_ = !special && file;
  // Some file systems know no files without names.
  if (!special && !file) file = File::create(out.partPath());
  if (!file) return errnoStatus("create", path);
  out.file_ = std::move(*file);
  if (!special) out.work_path_ = out.nameless_ ? pathOf(out.file_.fd()) : out.file_.path();
  // Its owner has said who may read it.
  if (exists && !special && st.st_uid == ::geteuid()) (void)::fchmod(out.file_.fd(), st.st_mode & 0777);
  return out;
}

std::string OutputFile::partPath() const { return path_ + ".part" + std::to_string(::getpid()); }

Status OutputFile::commit() {
  if (work_path_.empty()) return file_.close();
  const std::string work = partPath();
  work_path_.clear();
  if (nameless_) {
    ::unlink(work.c_str());
    if (::linkat(AT_FDCWD, pathOf(file_.fd()).c_str(), AT_FDCWD, work.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return errnoStatus("create", path_);
  }
  Status closed = file_.close();
  if (closed && ::rename(work.c_str(), path_.c_str()) != 0) closed = errnoStatus("create", path_);
  if (!closed) ::unlink(work.c_str());
  return closed;
}

Status OutputFile::commitDurably() {
  TS_TRY(file_.sync());
  TS_TRY(commit());
  const size_t slash = path_.rfind('/');
  return syncFolder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
}

Status syncFolder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errnoStatus("open", folder);
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL && errno != EROFS;
  const Status status = failed ? errnoStatus("sync", folder) : Status();
  ::close(fd);
  return status;
}

}  // namespace tracesmith
