// A set of ids that come from counters: about a bit for each, however many millions there are.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace tracesmith::trace {

class IdSet {
 public:
  /// False if it was there already.
  bool insert(int64_t id) {
    std::unique_ptr<Page>& page = pages_[id >> kBits];
    if (!page) page = std::make_unique<Page>();
    size_t bit = static_cast<size_t>(id) & (kPage - 1);
    if (page->test(bit)) return false;
    page->set(bit);
    return true;
  }
  bool contains(int64_t id) const {
    auto it = pages_.find(id >> kBits);
    return it != pages_.end() && it->second->test(static_cast<size_t>(id) & (kPage - 1));
  }

 private:
  static constexpr int kBits = 12;
  static constexpr size_t kPage = 1u << kBits;
  using Page = std::bitset<kPage>;
  std::unordered_map<int64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace tracesmith::trace
