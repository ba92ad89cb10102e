#include "capture/api/call_stack.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <charconv>
#include <cstdlib>

namespace tracesmith::capture {
namespace {

std::string readable(const char* symbol) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 && name ? name.get() : symbol;
}

std::string hex(uint64_t value) {
  char text[16];
  return "0x" + std::string(text, std::to_chars(text, text + sizeof text, value, 16).ptr);
}

/// Empty for a frame of the probe.
std::string frameText(uint64_t address) {
  Dl_info info{};
  // The address is where the call returns to. The call itself is before it, and may be the function's last instruction.
  if (!::dladdr(reinterpret_cast<void*>(static_cast<uintptr_t>(address - 1)), &info) || !info.dli_fname)
    return hex(address);
  std::string_view library = info.dli_fname;
  library.remove_prefix(library.rfind('/') + 1);  // npos + 1 is 0
  if (library == "libtracesmith_probe.so") return {};
  const std::string place =
      std::string(library) + "+" + hex(address - static_cast<uint64_t>(reinterpret_cast<uintptr_t>(info.dli_fbase)));
  return info.dli_sname ? readable(info.dli_sname) + " (" + place + ")" : place;
}

}  // namespace

CallStack CallStacks::find(std::string_view addresses) {
  if (addresses.empty()) return nullptr;
  if (auto found = known_.find(addresses); found != known_.end()) return found->second;
  std::vector<std::string> frames;
  for (const char *p = addresses.data(), *end = p + addresses.size(); p < end; ++p) {
    uint64_t address = 0;
    const auto [after, error] = std::from_chars(p, end, address, 16);
    if (error != std::errc()) break;
    if (std::string frame = frameText(address); !frame.empty()) frames.push_back(std::move(frame));
    p = after;
  }
  return known_[std::string(addresses)] = std::make_shared<const std::vector<std::string>>(std::move(frames));
}

}  // namespace tracesmith::capture
