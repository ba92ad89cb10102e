#include "base/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace tracesmith {

namespace fs = std::filesystem;

Result<SharedLibrary> SharedLibrary::load(const std::vector<std::string>& names, Symbols symbols) {
  const int flags = (symbols == Symbols::lazy ? RTLD_LAZY : RTLD_NOW) |  //
                    (symbols == Symbols::global ? RTLD_GLOBAL : RTLD_LOCAL);
  std::string reason = "no library was named";
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), flags)) return SharedLibrary(handle);
    const char* error = ::dlerror();
    reason = error ? error : name + " cannot be loaded";
  }
  return Status::notFound(reason);
}

SharedLibrary SharedLibrary::program() { return SharedLibrary(::dlopen(nullptr, RTLD_LAZY)); }

void* SharedLibrary::address(const char* symbol) const { return handle_ ? ::dlsym(handle_, symbol) : nullptr; }

void SharedLibrary::unload() {
  if (handle_) ::dlclose(handle_);
  handle_ = nullptr;
}

namespace {

/// Where the library or program is that this code is part of.
fs::path ownFolder() {
  std::error_code error;
  Dl_info info{};
  link_map* map = nullptr;
  const bool known =
      ::dladdr1(reinterpret_cast<void*>(&ownFolder), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  // The program itself has no name there.
  if (known && map && map->l_name && *map->l_name)
    if (fs::path file = fs::canonical(map->l_name, error); !error) return file.parent_path();
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

/// "libduckdb.so: cannot open shared object file: …" → libduckdb.so; otherwise empty.
std::string missingFile(const std::string& reason) {
  const size_t at = reason.find(": cannot open shared object file");
  return at == std::string::npos ? std::string() : reason.substr(0, at);
}

}  // namespace

Result<std::string> installedFile(const std::string& name) {
  const fs::path own = ownFolder();
  std::vector<fs::path> folders{own, own / "tracesmith"};  // the second: of libtracesmith.so
  fs::path up = own.parent_path();
  for (int i = 0; i < 3 && up.has_relative_path(); ++i, up = up.parent_path()) {
    folders.push_back(up / "lib");
    folders.push_back(up / "lib" / "tracesmith");  // where `make install` puts it
    folders.push_back(up / "share" / "tracesmith");
  }
  std::error_code error;
  for (const fs::path& folder : folders)
    if (fs::exists(folder / name, error)) return (folder / name).string();
  return Status::notFound(name + ", which is neither in " + own.string() + " nor in " +
                          (folders.size() > 2 ? folders[2].string() : std::string("lib beside it")));
}

Result<std::string> ownProgram() {
  constexpr const char* kSelf = "/proc/self/exe";
  constexpr const char* kName = "tracesmith";
  std::error_code error;
  if (fs::read_symlink(kSelf, error).filename().string().starts_with(kName)) return std::string(kSelf);
  const fs::path own = ownFolder();
  fs::path up = own;
  for (int i = 0; i < 4 && up.has_relative_path(); ++i, up = up.parent_path())
    for (const fs::path& file : {up / kName, up / "bin" / kName})
      if (fs::is_regular_file(file, error)) return file.string();
  return Status::notFound("the program " + std::string(kName) + ", which is neither in " + own.string() +
                          " nor in bin beside it");
}

Result<SharedLibrary> loadOwnLibrary(const OwnLibrary& library) {
  if (SharedLibrary program = SharedLibrary::program(); program.address(library.entry)) return program;
  Result<std::string> path = installedFile(library.file);
  Result<SharedLibrary> loaded = SharedLibrary::load({path ? *path : library.file}, library.symbols);
  if (loaded) return loaded;
  const std::string use = std::string(library.use) + " needs ", reason = loaded.status().message();
  if (!path) return Status::unsupported(use + path.status().message() + ": install it there");
  if (const std::string other = missingFile(reason); !other.empty())
    return Status::unsupported(use + other + ", which is not in " + fs::path(*path).parent_path().string() +
                               ": install it, or put it there");
  return Status::unsupported(use + *path + ", which cannot be loaded: " + reason);
}

}  // namespace tracesmith
