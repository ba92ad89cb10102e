// Files: the only door to the disk. Every failure is a Status that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

/// An open file descriptor. Movable, closes itself. pread is safe from several threads.
class File {
 public:
  File() = default;
  File(File&& other) noexcept : fd_(other.fd_), path_(std::move(other.path_)) { other.fd_ = -1; }
  File& operator=(File&& other) noexcept;
  ~File();

  static Result<File> openRead(const std::string& path);
  /// Creates or truncates. What is created only its owner may read, whatever the umask.
  static Result<File> create(const std::string& path);
  /// Writes go to the end; created if it is not there.
  static Result<File> openAppend(const std::string& path);
  /// Where `path` would be, but without a name: gone with its descriptor. Not every file system has such files.
  static Result<File> createWithoutName(const std::string& path);
  /// Without a name and on no disk; its path leads to it as long as it is open.
  static Result<File> inMemory();
  /// The standard output of this process, wherever it leads.
  static Result<File> standardOutput();

  bool isOpen() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  Result<uint64_t> size() const;

  /// Reads up to `size` bytes at `offset`; `got` is smaller only at the end of the file.
  Status readAt(uint64_t offset, void* buffer, size_t size, size_t& got) const;
  /// Reads on from the current position; `got` is 0 at the end. For pipes too.
  Status readNext(void* buffer, size_t size, size_t& got) const;
  Status write(const void* data, size_t size);
  Status write(std::string_view data) { return write(data.data(), data.size()); }
  /// Survives a power cut when it returns.
  Status sync();
  Status close();

 private:
  int fd_ = -1;
  std::string path_;
};

/// A folder, with those above it that are missing, that only its owner may enter, whatever the umask.
Status makePrivateFolder(const std::string& path);

/// An output that is either whole or absent, also when the process is killed: without a name (where the file system
/// has no such files, beside its final name) until commit(). What it replaces passes on its mode.
/// A path that exists and is no regular file (a pipe, /dev/stdout) is written directly.
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = default;
  ~OutputFile();

  static Result<OutputFile> create(const std::string& path);

  File& file() { return file_; }
  /// A path that leads to the bytes until commit(); empty: the path itself.
  const std::string& workPath() const { return work_path_; }
  Status write(std::string_view data) { return file_.write(data); }
  Status commit();
  /// commit(), and it survives a power cut when it returns: the bytes, and the name.
  Status commitDurably();

 private:
  std::string partPath() const;
  File file_;
  std::string path_;
  std::string work_path_;  // empty: nothing to remove
  bool nameless_ = false;
};

/// Appends through a buffer; flush() before the end, or the rest is lost.
class BufferedWriter {
 public:
  explicit BufferedWriter(File& file) : file_(file) { buffer_.reserve(kSize + 4096); }
  Status write(std::string_view data) {
    buffer_.append(data);
    return buffer_.size() >= kSize ? flush() : Status();
  }
  Status flush() {
    Status s = file_.write(buffer_);
    buffer_.clear();
    return s;
  }

 private:
  static constexpr size_t kSize = 1 << 18;
  File& file_;
  std::string buffer_;
};

/// Names in a folder survive a power cut when it returns.
Status syncFolder(const std::string& folder);

/// "No such file or directory" for the current errno, after "cannot <what> <path>: ".
Status errnoStatus(std::string_view what, const std::string& path);

}  // namespace tracesmith
