// FlatBuffers, as far as the headings of an Arrow stream need them: written front to back, offsets set when what they
// point to is written. Layout: https://flatbuffers.dev/internals
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tracesmith::query {

class FlatWriter {
 public:
  /// A field of a table; its place in the list is its number. Size 0: it is not there.
  struct Slot {
    uint8_t size;
    uint64_t value;
  };
  static constexpr Slot kAbsent{0, 0};
  static constexpr Slot kOffset{4, 0};  ///< set by pointHere()
  template <typename T>
  static Slot slot(T v) {
    return {sizeof v, static_cast<uint64_t>(v)};
  }

  FlatWriter() { put<uint32_t>(0); }  // to the root table

  /// Writes a table at the end; `at` gets the places of its fields.
  void table(const std::vector<Slot>& slots, std::vector<size_t>& at) {
    align(2);
    const size_t start = bytes_.size(), heading = 4 + 2 * slots.size();
    const size_t table = (start + heading + 7) / 8 * 8 + 4;  // fields begin at a multiple of 8
    at.assign(slots.size(), 0);
    size_t end = table + 4;
    for (uint8_t size : {8, 4, 2, 1})
      for (size_t i = 0; i < slots.size(); ++i)
        if (slots[i].size == size) {
          at[i] = end;
          end += size;
        }
    put(static_cast<uint16_t>(heading));
    put(static_cast<uint16_t>(end - table));
    for (size_t i = 0; i < slots.size(); ++i) put(static_cast<uint16_t>(at[i] == 0 ? 0 : at[i] - table));
    bytes_.resize(end, '\0');
    set(table, static_cast<int32_t>(table - start));
    for (size_t i = 0; i < slots.size(); ++i) std::memcpy(bytes_.data() + at[i], &slots[i].value, slots[i].size);
    if (first_) set(0, static_cast<uint32_t>(table));
    first_ = false;
    last_table_ = table;
  }
  /// The offset at this place points to the table written last.
  void pointToTable(size_t from) { set(from, static_cast<uint32_t>(last_table_ - from)); }

  /// A vector whose elements follow; `from` is the offset that points to it.
  void vector(size_t from, size_t count, size_t alignment) {
    while ((bytes_.size() + 4) % alignment != 0 || bytes_.size() % 4 != 0) bytes_ += '\0';
    set(from, static_cast<uint32_t>(bytes_.size() - from));
    put(static_cast<uint32_t>(count));
  }
  void string(size_t from, std::string_view text) {
    vector(from, text.size(), 4);
    bytes_ += text;
    bytes_ += '\0';
  }
  template <typename T>
  void put(T v) {
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  size_t size() const { return bytes_.size(); }

  /// Padded to 8 bytes, as Arrow wants it.
  const std::string& finish() {
    align(8);
    return bytes_;
  }

 private:
  void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to, '\0'); }
  template <typename T>
  void set(size_t at, T v) {
    std::memcpy(bytes_.data() + at, &v, sizeof v);
  }
  std::string bytes_;
  size_t last_table_ = 0;
  bool first_ = true;
};

}  // namespace tracesmith::query
