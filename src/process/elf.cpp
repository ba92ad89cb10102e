#include "process/elf.hpp"

#include <algorithm>
#include <cstring>

namespace tracesmith::process {
namespace {

constexpr uint64_t kMostTable = 256u << 20;  // bytes of a symbol table; the largest of CUDA's libraries have 100 MB

std::string_view nameAt(const std::string& names, uint64_t offset) {
  if (offset >= names.size()) return {};
  const char* begin = names.data() + offset;
  return {begin, ::strnlen(begin, names.size() - offset)};
}

}  // namespace

bool ElfFile::readBytes(uint64_t offset, void* to, uint64_t size) const {
  size_t got = 0;
  return file_.readAt(offset, to, size, got).ok() && got == size;
}

std::optional<std::string> ElfFile::content(const Elf64_Shdr& section, uint64_t most) const {
  if (section.sh_type == SHT_NOBITS || section.sh_size > most) return std::nullopt;
  const Result<uint64_t> size = file_.size();
  if (!size || section.sh_offset > *size || section.sh_size > *size - section.sh_offset) return std::nullopt;
  std::string bytes(section.sh_size, '\0');
  if (!readBytes(section.sh_offset, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

Result<ElfFile> ElfFile::open(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  ElfFile elf;
  elf.file_ = std::move(*file);
  Elf64_Ehdr head{};
  if (!elf.readBytes(0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
    return Status::unsupported(path + " is not a 64-bit ELF file");
  if (head.e_phentsize == sizeof(Elf64_Phdr)) {
    elf.segments_.resize(head.e_phnum);
    if (!elf.readBytes(head.e_phoff, elf.segments_.data(), elf.segments_.size() * sizeof(Elf64_Phdr)))
      return Status::corrupt(path + ": the program headers cannot be read");
  }
  if (head.e_shentsize == sizeof(Elf64_Shdr) && head.e_shnum > 0) {
    elf.sections_.resize(head.e_shnum);
    if (!elf.readBytes(head.e_shoff, elf.sections_.data(), elf.sections_.size() * sizeof(Elf64_Shdr)))
      elf.sections_.clear();  // cut off: symbols are then unknown
  }
  if (head.e_shstrndx < elf.sections_.size())
    elf.section_names_ = elf.content(elf.sections_[head.e_shstrndx], 1 << 20).value_or("");
  return elf;
}

std::optional<uint64_t> ElfFile::section(std::string_view name) const {
  for (const Elf64_Shdr& s : sections_)
    if (s.sh_addr != 0 && nameAt(section_names_, s.sh_name) == name) return s.sh_addr;
  return std::nullopt;
}

std::vector<std::optional<uint64_t>> ElfFile::symbols(const std::vector<std::string_view>& names) const {
  std::vector<std::optional<uint64_t>> found(names.size());
  for (const uint32_t kind : {SHT_DYNSYM, SHT_SYMTAB}) {  // the small one first
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != kind || s.sh_entsize != sizeof(Elf64_Sym) || s.sh_link >= sections_.size()) continue;
      if (std::all_of(found.begin(), found.end(), [](const auto& f) { return f.has_value(); })) return found;
      const std::optional<std::string> table = content(s, kMostTable), text = content(sections_[s.sh_link], kMostTable);
      if (!table || !text) continue;
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= table->size(); at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, table->data() + at, sizeof symbol);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) continue;
        const std::string_view name = nameAt(*text, symbol.st_name);
        for (size_t i = 0; i < names.size(); ++i)
          if (!found[i] && name == names[i]) found[i] = symbol.st_value;
      }
    }
  }
  return found;
}

std::optional<uint64_t> ElfFile::bias(uint64_t address, uint64_t offset) const {
  for (const Elf64_Phdr& p : segments_) {
    if (p.p_type != PT_LOAD) continue;
    const uint64_t begin = p.p_offset & ~uint64_t{4095};  // mappings begin at pages
    if (offset < begin || offset >= p.p_offset + p.p_filesz) continue;
    return address - offset + p.p_offset - p.p_vaddr;
  }
  return std::nullopt;
}

}  // namespace tracesmith::process
