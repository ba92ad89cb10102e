#include "trace/string_table.hpp"

#include "trace/layout.hpp"

namespace tracesmith::trace {

int64_t StringTable::intern(std::string_view s) {
  uint64_t hash = hash64(s.data(), s.size());
  size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  for (; slots_[i].id >= 0; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.hash == hash && std::string_view(bytes_).substr(slot.offset, slot.length) == s) return slot.id;
  }
  if (bytes_.size() + s.size() > max_bytes_ && used_ > 0) {
    bytes_.clear();
    slots_.assign(1024, Slot());
    used_ = 0;
    i = hash & (slots_.size() - 1);
  }
  int64_t id = next_id_++;
  slots_[i] = {hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(s.size()), id};
  bytes_.append(s);
  if (++used_ * 2 > slots_.size()) grow();
  if (new_.lengths.empty()) new_.first = id;
  new_.lengths.push_back(s.size());
  new_.bytes.append(s);
  return id;
}

void StringTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].id >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

StringTable::New StringTable::takeNew() {
  New taken = std::move(new_);
  new_ = New();
  return taken;
}

}  // namespace tracesmith::trace
