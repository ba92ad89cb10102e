#include "process/memory.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace tracesmith::process {

bool ProcessMemory::read(uint64_t address, void* to, size_t size) {
  if (size == 0) return true;
  iovec local{to, size};
  iovec remote{reinterpret_cast<void*>(address), size};
  if (::process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size)) return true;
  if (pid_ != ::getpid() || (errno != EPERM && errno != ENOSYS)) return false;
  // A filter forbids the call (containers): our own memory can be read like a file.
  static const int self = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  return self >= 0 && ::pread(self, to, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
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

RepeatedMemory::Parts RepeatedMemory::takeTouched() {
  Parts parts;
  parts.reserve(touched_.size());
  for (const uint64_t number : touched_) {
    const Page& page = pageOf(number);
    if (page.first < page.last) parts.push_back({number, page.first, page.last});
  }
  touched_.clear();
  return parts;
}

void RepeatedMemory::fetch(const Part* parts, size_t count) {
  constexpr size_t kMostAtOnce = 256;
  iovec local[kMostAtOnce], remote[kMostAtOnce];
  while (count > 0) {
    const size_t n = std::min(count, kMostAtOnce);
    for (size_t i = 0; i < n; ++i) {
      const Part& p = parts[i];
      Page& page = pageOf(p.page);
      page.fetched = now_;
      page.begin = page.end = 0;
      local[i] = {page.bytes + p.begin, p.end - p.begin};
      remote[i] = {reinterpret_cast<void*>(p.page * kPage + p.begin), p.end - p.begin};
    }
    const ssize_t got = ::process_vm_readv(pid_, local, n, remote, n, 0);
    // It ends at the first part that cannot be read; those behind it may well be readable.
    size_t done = 0;
    for (size_t left = got > 0 ? static_cast<size_t>(got) : 0; done < n && left >= local[done].iov_len; ++done) {
      Page& page = pageOf(parts[done].page);
      page.begin = parts[done].begin;
      page.end = parts[done].end;
      left -= local[done].iov_len;
    }
    done = std::min(n, done + 1);
    parts += done;
    count -= done;
  }
}

bool RepeatedMemory::read(uint64_t address, void* to, size_t size) {
  if (address + size < address) return false;
  char* out = static_cast<char*>(to);
  while (size > 0) {
    const uint64_t number = address / kPage;
    const auto at = static_cast<uint32_t>(address % kPage);
    const auto part = static_cast<uint32_t>(std::min<size_t>(size, kPage - at));
    Page& page = pageOf(number);
    if (page.fetched != now_ && expected_ && !std::exchange(expected_fetched_, true))
      fetch(expected_->data(), expected_->size());
    if (page.fetched != now_ || at < page.begin || at + part > page.end) {
      const Part whole{number, 0, kPage};
      fetch(&whole, 1);
    }
    if (page.touched != now_) {
      page.touched = now_;
      page.first = kPage;
      page.last = 0;
      touched_.push_back(number);
    }
    if (at + part > page.end) return false;
    page.first = std::min(page.first, at);
    page.last = std::max(page.last, at + part);
    std::memcpy(out, page.bytes + at, part);
    out += part;
    address += part;
    size -= part;
  }
  return true;
}

}  // namespace tracesmith::process
