#include "process/libdw.hpp"

#if __has_include(<elfutils/libdwfl.h>)

#include <string>

#include "base/library.hpp"

namespace tracesmith::process {

Result<const Dw*> Dw::load() {
  static const Result<Dw> loaded = []() -> Result<Dw> {
    const char* needs = "native frames need libdw.so.1 (Debian: libdw1, Fedora: elfutils-libs)";
    Result<SharedLibrary> library = SharedLibrary::load({"libdw.so.1"});
    if (!library) return Status::unsupported(needs);
    Dw dw;
    bool all = true;
#define TS_FIND(name) all &= library->find(dw.name, #name);
    TS_DW_FUNCTIONS(TS_FIND)
#undef TS_FIND
    if (!all) return Status::unsupported(std::string(needs) + " of version 0.158 or later");
    return dw;
  }();
  if (!loaded) return loaded.status();
  return &*loaded;
}

}  // namespace tracesmith::process

#endif
