#include "cli/server_library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace tracesmith::cli {

Result<server::Library*> loadServer() {
  constexpr const char* kLibrary = "libtracesmith_server.so";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path().parent_path() / "lib" / kLibrary;
  const bool there = !error && std::filesystem::exists(beside, error);
  void* library = ::dlopen(there ? beside.c_str() : kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    return Status::unsupported(std::string("the page needs ") + kLibrary + ": " + (reason ? reason : "not found"));
  }
  auto* create = reinterpret_cast<server::CreateLibrary*>(::dlsym(library, server::kCreateLibraryName));
  server::Library* created = create ? create(server::kLibraryVersion) : nullptr;
  if (!created) return Status::unsupported(std::string(kLibrary) + " belongs to another version of tracesmith");
  return created;
}

}  // namespace tracesmith::cli
