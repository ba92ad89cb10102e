#include "process/memory.hpp"

#include <sys/uio.h>

#include <algorithm>

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

}  // namespace tracesmith::process
