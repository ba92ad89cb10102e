// Small files of the kernel: /sys and /proc. What is not there, cannot be read or holds nonsense is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::hardware {

/// Content without the newline at its end; at most 64 KB.
std::optional<std::string> readText(const std::string& path);
/// A decimal (or 0x…) number at the beginning of the file.
std::optional<int64_t> readNumber(const std::string& path);
/// The number at the beginning of a text, blanks before it skipped.
std::optional<int64_t> firstNumber(std::string_view text);
/// Names in a folder, in natural order: card2 before card10.
std::vector<std::string> listFolder(const std::string& path);
/// Last part of what a link points to, or nothing.
std::optional<std::string> linkTarget(const std::string& path);
/// The path with all links followed, or nothing.
std::optional<std::string> realPath(const std::string& path);

/// A file that is read again and again: kept open, read from its beginning. When it has vanished it is opened anew.
class SmallFile {
 public:
  explicit SmallFile(std::string path) : path_(std::move(path)) {}
  SmallFile(SmallFile&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) { other.fd_ = -1; }
  SmallFile(const SmallFile&) = delete;
  SmallFile& operator=(const SmallFile&) = delete;
  ~SmallFile();

  /// Valid until the next read of any SmallFile on this thread. Empty view and false: it cannot be read (see error()).
  bool read(std::string_view& content);
  std::optional<int64_t> number();
  int error() const { return error_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  int error_ = 0;  // errno of the last failure
};

/// Lines and words, without copies.
std::string_view nextLine(std::string_view& text);
std::string_view nextWord(std::string_view& line);

}  // namespace tracesmith::hardware
