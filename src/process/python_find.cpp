// Finds the interpreter: which module has it, and of which version it is.
#include <unistd.h>

#include <algorithm>

#include "process/elf.hpp"
#include "process/python.hpp"

namespace tracesmith::process {
namespace {

std::string_view fileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// The number after `prefix`, "3.8" or "38", where a path has such a thing.
std::optional<PythonVersion> versionInName(std::string_view path, std::string_view prefix) {
  for (size_t at = path.find(prefix); at != std::string_view::npos; at = path.find(prefix, at + 1)) {
    std::string_view rest = path.substr(at + prefix.size());
    if (!rest.starts_with('3')) continue;
    rest.remove_prefix(rest.starts_with("3.") ? 2 : 1);
    int minor = 0;
    size_t digits = 0;
    for (; digits < rest.size() && digits < 2 && rest[digits] >= '0' && rest[digits] <= '9'; ++digits)
      minor = 10 * minor + (rest[digits] - '0');
    if (digits > 0) return PythonVersion{3, minor, -1};
  }
  return std::nullopt;
}

/// Until 3.10 the interpreter does not say it where it could be read: its file's name does, or those of its modules.
std::optional<PythonVersion> versionByNames(const Module& module, const std::vector<Module>& modules) {
  if (auto v = versionInName(fileName(module.path), "python")) return v;
  for (const Module& m : modules) {
    if (auto v = versionInName(fileName(m.path), ".cpython-")) return v;
    if (auto v = versionInName(m.path, "/lib/python")) return v;
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<Interpreter>> findInterpreter(pid_t pid, const std::vector<Module>& modules, Memory& memory) {
  std::vector<const Module*> candidates;
  for (const Module& m : modules)
    if (fileName(m.path).starts_with("libpython")) candidates.push_back(&m);
  char program[4096] = {};
  if (::readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), program, sizeof program - 1) > 0)
    for (const Module& m : modules)
      if (m.path == program || (m.deleted && m.path + " (deleted)" == program)) candidates.push_back(&m);

  for (const Module* m : candidates) {
    const bool is_program = m->path == program || m->deleted;
    Result<ElfFile> elf = ElfFile::open(is_program && !fileName(m->path).starts_with("libpython")
                                            ? "/proc/" + std::to_string(pid) + "/exe"  // also if it was replaced
                                            : openPath(pid, *m));
    if (!elf) continue;
    const std::optional<uint64_t> bias = elf->bias(m->begin, m->offset);
    if (!bias) continue;
    const auto found = elf->symbols({"_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type", "PyBytes_Type"});
    const auto at = [&](size_t i) { return found[i] ? *found[i] + *bias : 0; };
    Interpreter python;
    python.runtime = at(0);
    if (python.runtime == 0) {
      const std::optional<uint64_t> section = elf->section(".PyRuntime");
      if (!section) continue;
      python.runtime = *section + *bias;
    }
    python.code_type = at(2);
    python.string_type = at(3);
    python.bytes_type = at(4);
    auto told = toldLayout(memory, python.runtime);
    if (!told) return told.status();
    if (*told) {
      python.layout = **told;
      return std::optional<Interpreter>(python);
    }
    std::optional<PythonVersion> version;
    if (found[1]) {
      if (const auto hex = memory.get<uint64_t>(at(1))) version = versionOf(*hex);
    } else {
      version = versionByNames(*m, modules);
    }
    if (!version) return Status::unsupported("the version of its Python cannot be told");
    Result<PythonLayout> layout = knownLayout(*version);
    if (!layout) return layout.status();
    python.layout = *layout;
    return std::optional<Interpreter>(python);
  }
  return std::optional<Interpreter>();
}

}  // namespace tracesmith::process
