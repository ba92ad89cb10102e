#include "hardware/sysfs.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/natural_order.hpp"

namespace tracesmith::hardware {
namespace {

constexpr size_t kMost = 1 << 16;

}  // namespace

std::optional<std::string> readText(const std::string& path) {
  SmallFile file(path);
  std::string_view content;
  if (!file.read(content)) return std::nullopt;
  while (!content.empty() && (content.back() == '\n' || content.back() == ' ')) content.remove_suffix(1);
  return std::string(content);
}

std::optional<int64_t> firstNumber(std::string_view text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
  }
  int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v, base);
  if (error == std::errc::result_out_of_range) {
    uint64_t large = 0;  // counters may use all 64 bits
    auto [stop, wrong] = std::from_chars(text.data(), text.data() + text.size(), large, base);
    if (wrong != std::errc()) return std::nullopt;
    return static_cast<int64_t>(large);
  }
  if (error != std::errc()) return std::nullopt;
  return v;
}

std::optional<int64_t> readNumber(const std::string& path) { return SmallFile(path).number(); }

std::vector<std::string> listFolder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (std::filesystem::directory_iterator i(path, ignored), end; i != end; i.increment(ignored))
    names.push_back(i->path().filename());
  std::sort(names.begin(), names.end(), NaturalOrder());
  return names;
}

std::optional<std::string> linkTarget(const std::string& path) {
  std::error_code failed;
  std::filesystem::path target = std::filesystem::read_symlink(path, failed);
  if (failed) return std::nullopt;
  return target.filename().string();
}

std::optional<std::string> realPath(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (!resolved) return std::nullopt;
  std::string out = resolved;
  ::free(resolved);
  return out;
}

SmallFile::~SmallFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool SmallFile::read(std::string_view& content) {
  static thread_local std::string buffer(kMost, '\0');
  content = {};
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool fresh = fd_ < 0;
    if (fresh) fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) break;
    size_t size = 0;
    ssize_t n;
    while ((n = ::pread(fd_, buffer.data() + size, kMost - size, static_cast<off_t>(size))) > 0) {
      size += static_cast<size_t>(n);
      if (size == kMost || n < 2048) break;  // the kernel gives small files whole
    }
    if (n >= 0) {
      content = std::string_view(buffer.data(), size);
      return true;
    }
    error_ = errno;
    ::close(fd_);
    fd_ = -1;
    if (fresh) return false;
  }
  error_ = errno;
  return false;
}

std::optional<int64_t> SmallFile::number() {
  std::string_view content;
  return read(content) ? firstNumber(content) : std::nullopt;
}

std::string_view nextLine(std::string_view& text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view nextWord(std::string_view& line) {
  size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    line = {};
    return {};
  }
  size_t end = line.find_first_of(" \t", begin);
  std::string_view word = line.substr(begin, end == std::string_view::npos ? end : end - begin);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end);
  return word;
}

}  // namespace tracesmith::hardware
