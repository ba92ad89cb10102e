// What an importer could not keep, counted by cause, with one example each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "trace/import/utf8.hpp"

namespace tracesmith::trace {

class RowSink;
class Writer;

class Losses {
 public:
  struct Entry {
    uint64_t count = 0;
    std::string example;  // of the first
  };

  void add(std::string_view cause, uint64_t count, std::string_view example) {
    auto it = entries_.find(cause);
    if (it == entries_.end()) {
      it = entries_.emplace(std::string(cause), Entry()).first;
      it->second.example = utf8Prefix(example, 400);
    }
    it->second.count += count;
  }
  void add(const Losses& other) {
    for (const auto& [cause, entry] : other.entries_) add(cause, entry.count, entry.example);
  }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  uint64_t total() const {
    uint64_t n = 0;
    for (const auto& [cause, entry] : entries_) n += entry.count;
    return n;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

/// Rows of them.
void writeLosses(const Losses& losses, Writer& writer, RowSink& sink);

}  // namespace tracesmith::trace
