#include "process/unwind.hpp"

#if __has_include(<elfutils/libdwfl.h>)

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/library.hpp"

namespace tracesmith::process {
namespace {

/// The functions of libdw that are called here.
struct Dw {
#define TS_DW_FUNCTIONS(X)       \
  X(dwfl_begin)                  \
  X(dwfl_end)                    \
  X(dwfl_report_begin)           \
  X(dwfl_report_module)          \
  X(dwfl_report_end)             \
  X(dwfl_attach_state)           \
  X(dwfl_getthread_frames)       \
  X(dwfl_frame_pc)               \
  X(dwfl_thread_state_registers) \
  X(dwfl_thread_state_register_pc) X(dwfl_addrmodule) X(dwfl_module_addrinfo) X(dwfl_module_info) X(dwfl_module_getelf)
#define TS_DECLARE(name) decltype(::name)* name = nullptr;
  TS_DW_FUNCTIONS(TS_DECLARE)
#undef TS_DECLARE

  static Result<const Dw*> load() {
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
};

/// The kernel's own library has no file: this process has the same one.
int openVdso() {
  const auto* begin = reinterpret_cast<const char*>(::getauxval(AT_SYSINFO_EHDR));
  const int fd = begin ? ::memfd_create("vdso", MFD_CLOEXEC) : -1;
  if (fd < 0) return -1;
  constexpr size_t kPages[] = {4, 3, 2, 1};  // as many as there are: writing what is not mapped fails
  for (const size_t pages : kPages)
    if (::pwrite(fd, begin, pages * 4096, 0) == static_cast<ssize_t>(pages * 4096)) return fd;
  ::close(fd);
  return -1;
}

/// Called by libdw for a module whose file it needs; its name is its path as this process sees it.
int findElf(Dwfl_Module*, void**, const char* name, Dwarf_Addr, char** file, Elf**) {
  if (std::strcmp(name, kVdso) == 0) return openVdso();
  const int fd = ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) *file = ::strdup(name);
  return fd;
}

/// Symbols of separate files cost seconds, or a download: those of the files themselves have to do.
int findDebugInfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

std::string readable(const char* name) {
  int status = 0;
  char* text = name[0] == '_' && name[1] == 'Z' ? abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;
  std::string out = text ? text : name;
  std::free(text);
  return out;
}

class DwUnwinder : public Unwinder {
 public:
  DwUnwinder(const Dw& dw, pid_t pid, const std::vector<Module>& modules) : dw_(dw), pid_(pid), modules_(modules) {}
  ~DwUnwinder() override {
    if (dwfl_) dw_.dwfl_end(dwfl_);
  }

  bool open() {
    static const Dwfl_Callbacks kFiles = {findElf, findDebugInfo, nullptr, nullptr};
    static const Dwfl_Thread_Callbacks kThreads = {nextThread, getThread, readMemory, setRegisters, nullptr, nullptr};
    dwfl_ = dw_.dwfl_begin(&kFiles);
    if (!dwfl_) return false;
    dw_.dwfl_report_begin(dwfl_);
    for (const Module& m : modules_)
      dw_.dwfl_report_module(dwfl_, m.path == kVdso ? kVdso : openPath(pid_, m).c_str(), m.begin, m.end);
    dw_.dwfl_report_end(dwfl_, nullptr, nullptr);
    return dw_.dwfl_attach_state(dwfl_, nullptr, pid_, &kThreads, this);
  }

  std::vector<NativeFrame> unwind(const Snapshot& snapshot, bool& complete) override {
    snapshot_ = &snapshot;
    counters_.clear();
    const int ended = dw_.dwfl_getthread_frames(dwfl_, pid_, addFrame, this);
    complete = ended == 0 && counters_.size() < kMostFrames;
    std::vector<NativeFrame> frames;
    for (const uint64_t pc : counters_) frames.push_back(describe(pc));
    return frames;
  }

 private:
  static pid_t nextThread(Dwfl*, void*, void**) { return 0; }
  static bool getThread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool readMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
    const Snapshot& s = *static_cast<DwUnwinder*>(self)->snapshot_;
    const uint64_t at = address - s.stack_begin;
    if (at >= s.stack.size() || s.stack.size() - at < sizeof *word) return false;
    std::memcpy(word, s.stack.data() + at, sizeof *word);
    return true;
  }
  static bool setRegisters(Dwfl_Thread* thread, void* self) {
    const DwUnwinder& u = *static_cast<DwUnwinder*>(self);
    const Snapshot& s = *u.snapshot_;
    Dwarf_Word words[std::tuple_size_v<decltype(s.registers)>];
    std::copy(s.registers.begin(), s.registers.end(), words);
    u.dw_.dwfl_thread_state_register_pc(thread, s.pc);
    return u.dw_.dwfl_thread_state_registers(thread, 0, kRegisters, words);
  }
  static int addFrame(Dwfl_Frame* frame, void* self) {
    DwUnwinder& u = *static_cast<DwUnwinder*>(self);
    Dwarf_Addr pc = 0;
    bool innermost = false;  // or interrupted by a signal: it is at this instruction, others return to theirs
    if (!u.dw_.dwfl_frame_pc(frame, &pc, &innermost) || pc == 0) return DWARF_CB_ABORT;
    u.counters_.push_back(innermost ? pc : pc - 1);
    return u.counters_.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  const NativeFrame& describe(uint64_t pc) {
    const auto [at, added] = known_.try_emplace(pc);
    if (!added) return at->second;
    NativeFrame& frame = at->second;
    Dwfl_Module* module = dw_.dwfl_addrmodule(dwfl_, pc);
    if (!module) return frame;
    for (const Module& m : modules_)
      if (pc >= m.begin && pc < m.end) frame.file = m.path;
    GElf_Addr bias = 0;
    if (dw_.dwfl_module_getelf(module, &bias)) frame.address = pc - bias;
    GElf_Off offset = 0;
    GElf_Sym symbol{};
    if (const char* name = dw_.dwfl_module_addrinfo(module, pc, &offset, &symbol, nullptr, nullptr, nullptr))
      frame.function = readable(name);
    return frame;
  }

  const Dw& dw_;
  pid_t pid_;
  const std::vector<Module>& modules_;
  Dwfl* dwfl_ = nullptr;
  const Snapshot* snapshot_ = nullptr;
  std::vector<uint64_t> counters_;
  std::unordered_map<uint64_t, NativeFrame> known_;
};

}  // namespace

Result<std::unique_ptr<Unwinder>> Unwinder::create(pid_t pid, const std::vector<Module>& modules) {
  const Result<const Dw*> dw = Dw::load();
  if (!dw) return dw.status();
  auto unwinder = std::make_unique<DwUnwinder>(**dw, pid, modules);
  if (!unwinder->open()) return Status::unsupported("native frames: libdw cannot read the program's files");
  return std::unique_ptr<Unwinder>(std::move(unwinder));
}

}  // namespace tracesmith::process

#else

namespace tracesmith::process {

Result<std::unique_ptr<Unwinder>> Unwinder::create(pid_t, const std::vector<Module>&) {
  return Status::unsupported("this tracesmith was built without native frames (libdw-dev was missing)");
}

}  // namespace tracesmith::process

#endif
