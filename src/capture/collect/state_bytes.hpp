// A collector's state as bytes, for resume.cpp.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace tracesmith::capture {

class Out {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view s) {
    put<uint64_t>(s.size());
    bytes_.append(s);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class In {
 public:
  explicit In(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  template <typename T>
  T get() {
    T value{};
    if (bytes_.size() < sizeof value) return ok_ = false, value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  bool flag() { return get<uint8_t>() != 0; }  // a bool may hold nothing else than 0 and 1, a file anything
  /// A count of things that take at least `least` bytes each.
  uint64_t count(size_t least) {
    const auto n = get<uint64_t>();
    if (n > bytes_.size() / least) return ok_ = false, 0;
    return n;
  }
  std::string text() {
    const uint64_t n = count(1);
    std::string s(bytes_.substr(0, n));
    bytes_.remove_prefix(n);
    return s;
  }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace tracesmith::capture
