// What a program or library file says: where its sections and symbols are. The file may belong to somebody else's
// container: every number in it is checked.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"

namespace tracesmith::process {

class ElfFile {
 public:
  static Result<ElfFile> open(const std::string& path);

  /// Address of a section, as the file has it.
  std::optional<uint64_t> section(std::string_view name) const;
  /// Addresses of these symbols, in their order; those that are not there are nothing.
  std::vector<std::optional<uint64_t>> symbols(const std::vector<std::string_view>& names) const;
  /// What to add to addresses of the file where the part at `offset` is mapped at `address`.
  std::optional<uint64_t> bias(uint64_t address, uint64_t offset) const;

 private:
  bool readBytes(uint64_t offset, void* to, uint64_t size) const;
  std::optional<std::string> content(const Elf64_Shdr& section, uint64_t most) const;

  File file_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  std::string section_names_;
};

}  // namespace tracesmith::process
