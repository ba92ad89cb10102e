#include "sink/queue.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/file.hpp"

namespace tracesmith::sink {

namespace fs = std::filesystem;

namespace {

/// Number of an entry, its items and bytes, and its kind: 000000000012-345-6789-metrics
bool parseName(std::string_view name, uint64_t (&numbers)[3], std::string& kind) {
  for (uint64_t& number : numbers) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || end == name.data() + name.size() || *end != '-') return false;
    name.remove_prefix(static_cast<size_t>(end + 1 - name.data()));
  }
  kind = name;
  return !kind.empty() && kind.find('.') == std::string::npos;
}

}  // namespace

Status Queue::open(const std::string& folder, uint64_t most_bytes) {
  TS_TRY(makePrivateFolder(folder));
  std::lock_guard lock(mutex_);
  folder_ = folder;
  most_bytes_ = most_bytes;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    uint64_t numbers[3];
    std::string kind;
    if (!parseName(file.path().filename().string(), numbers, kind)) continue;
    entries_.push_back({numbers[0], numbers[1], numbers[2], kind});
  }
  if (error) return Status::io("cannot read the folder " + folder + ": " + error.message());
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.number < b.number; });
  for (const Entry& e : entries_) {
    bytes_ += e.bytes;
    items_ += e.items;
    next_ = e.number + 1;
  }
  return {};
}

std::string Queue::pathOf(const Entry& e) const {
  char number[24];
  std::snprintf(number, sizeof number, "%012llu", static_cast<unsigned long long>(e.number));
  return folder_ + "/" + number + "-" + std::to_string(e.items) + "-" + std::to_string(e.bytes) + "-" + e.kind;
}

uint64_t Queue::put(const Message& message) {
  uint64_t lost = 0;
  std::lock_guard lock(mutex_);
  Entry entry{next_, message.items, message.body.size(), message.kind};
  if (entry.bytes > most_bytes_) return entry.items;
  while (bytes_ + entry.bytes > most_bytes_) lost += removeFront();
  const Status written = [&]() -> Status {
    Result<OutputFile> out = OutputFile::create(pathOf(entry));
    if (!out) return out.status();
    TS_TRY(out->write(message.body));
    return out->commit();
  }();
  if (!written) return lost + entry.items;
  ++next_;
  bytes_ += entry.bytes;
  items_ += entry.items;
  entries_.push_back(std::move(entry));
  return lost;
}

std::optional<Queue::Front> Queue::front() const {
  std::lock_guard lock(mutex_);
  if (entries_.empty()) return {};
  const Entry& e = entries_.front();
  Front front{e.number, e.items, Message{e.kind, e.items, std::string(e.bytes, '\0')}};
  const Result<File> file = File::openRead(pathOf(e));
  size_t got = 0;
  if (!file || !file->readAt(0, front.message->body.data(), e.bytes, got) || got != e.bytes) front.message.reset();
  return front;
}

uint64_t Queue::removeFront() {
  const Entry& e = entries_.front();
  const uint64_t items = e.items;
  ::unlink(pathOf(e).c_str());
  bytes_ -= e.bytes;
  items_ -= e.items;
  entries_.pop_front();
  return items;
}

void Queue::remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (!entries_.empty() && entries_.front().number == number) removeFront();
}

uint64_t Queue::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t Queue::items() const {
  std::lock_guard lock(mutex_);
  return items_;
}

}  // namespace tracesmith::sink
