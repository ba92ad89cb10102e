#include "process/memory.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tracesmith::process {

bool ProcessMemory::read(uint64_t address, void* to, size_t size) {
  if (size == 0) return true;
  iovec local{to, size};
  iovec remote{reinterpret_cast<void*>(address), size};
  return ::process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

const char* PageCache::page(uint64_t number) {
  if (const auto found = pages_.find(number); found != pages_.end()) return found->second.get();
  if (pages_.size() >= kMostPages) pages_.clear();
  std::unique_ptr<char[]> bytes(new char[kPage]);
  if (!below_.read(number * kPage, bytes.get(), kPage)) bytes.reset();
  return (pages_[number] = std::move(bytes)).get();
}

bool PageCache::read(uint64_t address, void* to, size_t size) {
  if (address + size < address) return false;
  char* out = static_cast<char*>(to);
  while (size > 0) {
    const char* bytes = page(address / kPage);
    if (!bytes) return false;
    const size_t at = address % kPage, part = std::min(size, kPage - at);
    std::memcpy(out, bytes + at, part);
    out += part;
    address += part;
    size -= part;
  }
  return true;
}

void RepeatedMemory::forget() {
  ++now_;
  expected_fetched_ = false;
  touched_.clear();
  if (pages_.size() <= kMostPages) return;
  pages_.clear();
  std::fill(std::begin(recent_), std::end(recent_), Recent());
}

RepeatedMemory::Page& RepeatedMemory::pageOf(uint64_t number) {
  Recent& recent = recent_[number % std::size(recent_)];
  if (recent.page && recent.number == number) return *recent.page;
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  recent = {number, page.get()};
  return *page;
}

void RepeatedMemory::fetch(const uint64_t* numbers, size_t count) {
  constexpr size_t kMostAtOnce = 256;
  iovec local[kMostAtOnce], remote[kMostAtOnce];
  while (count > 0) {
    const size_t n = std::min(count, kMostAtOnce);
    for (size_t i = 0; i < n; ++i) {
      Page& page = pageOf(numbers[i]);
      page.fetched = now_;
      page.readable = false;
      local[i] = {page.bytes, kPage};
      remote[i] = {reinterpret_cast<void*>(numbers[i] * kPage), kPage};
    }
    const ssize_t got = ::process_vm_readv(pid_, local, n, remote, n, 0);
    const size_t whole = got > 0 ? static_cast<size_t>(got) / kPage : 0;
    for (size_t i = 0; i < whole; ++i) pageOf(numbers[i]).readable = true;
    // It ends at the first page that cannot be read; those behind it may well be readable.
    const size_t done = std::min(n, whole + 1);
    numbers += done;
    count -= done;
  }
}

bool RepeatedMemory::read(uint64_t address, void* to, size_t size) {
  if (address + size < address) return false;
  char* out = static_cast<char*>(to);
  while (size > 0) {
    const uint64_t number = address / kPage;
    Page* page = &pageOf(number);
    if (page->fetched != now_ && expected_ && !std::exchange(expected_fetched_, true)) {
      fetch(expected_->data(), expected_->size());
      page = &pageOf(number);
    }
    if (page->fetched != now_) fetch(&number, 1);
    if (page->touched != now_) {
      page->touched = now_;
      touched_.push_back(number);
    }
    if (!page->readable) return false;
    const size_t at = address % kPage, part = std::min(size, kPage - at);
    std::memcpy(out, page->bytes + at, part);
    out += part;
    address += part;
    size -= part;
  }
  return true;
}

}  // namespace tracesmith::process
