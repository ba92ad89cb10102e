#include "cli/cluster_library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace tracesmith::cli {

Result<cluster::Library*> loadCluster() {
  constexpr const char* kLibrary = "libtracesmith_cluster.so";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = program.parent_path().parent_path() / "lib" / kLibrary;
  const bool there = !error && std::filesystem::exists(beside, error);
  // Never unloaded: gRPC's threads and statics live until the process ends. Lazily: most of what a short command costs
  // is looking up the functions of gRPC's fifty libraries, of which it calls few.
  void* library = ::dlopen(there ? beside.c_str() : kLibrary, RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    return Status::unsupported(std::string("cluster commands need ") + kLibrary + ": " +
                               (reason ? reason : "not found"));
  }
  auto* create = reinterpret_cast<cluster::CreateLibrary*>(::dlsym(library, cluster::kCreateLibraryName));
  cluster::Library* created = create ? create(cluster::kLibraryVersion) : nullptr;
  if (!created) return Status::unsupported(std::string(kLibrary) + " belongs to another version of tracesmith");
  return created;
}

}  // namespace tracesmith::cli
