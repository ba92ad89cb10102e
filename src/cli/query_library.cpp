#include "cli/query_library.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace tracesmith::cli {
namespace {

constexpr const char* kLibrary = "libtracesmith_query.so";

std::string libraryFolder() {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : (program.parent_path().parent_path() / "lib").string();
}

Status missing(const std::string& folder, bool there, const std::string& reason) {
  if (!there)
    return Status::unsupported("SQL needs " + std::string(kLibrary) + ", which is not in " + folder +
                               ": install it there, or build tracesmith with QUERY=ON");
  if (reason.find("libduckdb") != std::string::npos)
    return Status::unsupported("SQL needs libduckdb.so 1.4.4, which is not in " + folder +
                               ": put it there (scripts/get-duckdb brings it to build/duckdb/lib)");
  return Status::unsupported("SQL is not available: " + reason);
}

}  // namespace

Result<std::unique_ptr<query::Engine>> loadQueryEngine() {
  const std::string folder = libraryFolder();
  const std::string path = folder + "/" + kLibrary;
  std::error_code error;
  bool there = std::filesystem::exists(path, error);
  void* library = there ? ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    return missing(folder, there, reason ? reason : "");
  }
  // Never unloaded: DuckDB's threads and statics live until the process ends.
  auto* create = reinterpret_cast<query::CreateEngine*>(::dlsym(library, query::kCreateEngineName));
  if (!create) return Status::unsupported(path + " is not tracesmith's query library");
  const char* why = "unknown reason";
  std::unique_ptr<query::Engine> engine(create(query::kEngineVersion, &why));
  if (!engine) return Status::unsupported(std::string("SQL is not available: ") + why);
  return engine;
}

}  // namespace tracesmith::cli
