// Libraries that are loaded when they are used: our own, and those of vendors.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith {

/// A loaded shared library. It stays loaded when this object goes: its threads and statics live until the process ends.
class SharedLibrary {
 public:
  enum class Symbols {
    now,     ///< all found at loading
    lazy,    ///< each at its first call: quicker where few of many are called
    global,  ///< as `now`, and other libraries see them
  };

  /// The first of these that can be loaded. A name without a slash is searched for as the dynamic loader does. The
  /// error is the loader's own, of the last one.
  static Result<SharedLibrary> load(const std::vector<std::string>& names, Symbols symbols = Symbols::now);

  /// The program itself, and what it was linked with.
  static SharedLibrary program();

  /// Sets `function` to the symbol, or to null; false if there is none.
  template <typename F>
  bool find(F*& function, const char* symbol) const {
    function = reinterpret_cast<F*>(address(symbol));
    return function != nullptr;
  }
  /// Of a symbol; null if there is none.
  void* address(const char* symbol) const;
  /// For those that must make room for another version of the library. No function of it may be called any more.
  void unload();

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

/// A file that is installed with this code ("libtracesmith_probe.so"): in the folder of the library or program that
/// this code is part of, in `lib` or `share/tracesmith` beside that folder, or of one of two folders further up
/// (build/bin/tests).
/// The error reads on from "… needs ".
Result<std::string> installedFile(const std::string& name);

/// The program `tracesmith`, to be started again: this process's own file where it is that (also if it was replaced
/// meanwhile), else the one that is installed with this code. The error reads on from "… needs ".
Result<std::string> ownProgram();

/// One of our own libraries, with an entry that gives the interface `I`:
///   extern "C" I* entry(const char* version, const char** why);
/// The entry gives nullptr and a reason (a static text) if it cannot, or was not built from the same declarations.
struct OwnLibrary {
  const char* use;      ///< what needs it, as the beginning of a sentence: "SQL"
  const char* file;     ///< libtracesmith_query.so
  const char* entry;    ///< name of the function
  const char* version;  ///< of interface_versions.hpp
  SharedLibrary::Symbols symbols = SharedLibrary::Symbols::now;
};

/// The reason an entry gives where `version` is not its own.
inline constexpr const char* kOtherVersion =
    "it belongs to another version of tracesmith: install the program and its libraries from the same package";

/// The program itself where the library is linked into it (cmake/Portable.cmake).
Result<SharedLibrary> loadOwnLibrary(const OwnLibrary& library);

template <typename I>
Result<I*> loadInterface(const OwnLibrary& library) {
  Result<SharedLibrary> loaded = loadOwnLibrary(library);
  if (!loaded) return loaded.status();
  I* (*entry)(const char*, const char**) = nullptr;
  const char* why = "it is not a library of tracesmith";
  I* made = loaded->find(entry, library.entry) ? entry(library.version, &why) : nullptr;
  if (!made) return Status::unsupported(std::string(library.use) + " needs " + library.file + ", but " + why);
  return made;
}

}  // namespace tracesmith
