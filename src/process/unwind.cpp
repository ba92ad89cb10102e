#include "process/unwind.hpp"

#if __has_include(<elfutils/libdwfl.h>)

#include <cxxabi.h>
#include <dwarf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/clock.hpp"
#include "process/libdw.hpp"
#include "process/unwind_rules.hpp"

namespace tracesmith::process {
namespace {

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

/// Debug information that is installed for a file; nothing is downloaded. The process may be in a container, so it is
/// looked for beside its files first.
int findDebugInfo(Dwfl_Module* module, void** data, const char* name, Dwarf_Addr, const char*, const char*, GElf_Word,
                  char** file) {
  const auto* dw = static_cast<const Dw*>(*data);
  const unsigned char* id = nullptr;
  GElf_Addr at = 0;
  const int size = dw ? dw->dwfl_module_build_id(module, &id, &at) : 0;
  if (size < 3 || size > 64) return -1;
  std::string path = "/usr/lib/debug/.build-id/";
  for (int i = 0; i < size; ++i) {
    char two[4];
    std::snprintf(two, sizeof two, i == 0 ? "%02x/" : "%02x", id[i]);
    path += two;
  }
  path += ".debug";
  const std::string_view whose(name);  // /proc/PID/root/…
  const size_t root = whose.starts_with("/proc/") ? whose.find("/root/") : std::string_view::npos;
  for (const std::string& place :
       {std::string(whose.substr(0, root == std::string_view::npos ? 0 : root + 5)) + path, path})
    if (const int fd = ::open(place.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); fd >= 0) {
      *file = ::strdup(place.c_str());
      return fd;
    }
  return -1;
}

constexpr int64_t kMostSourceNs = 10'000'000'000;  // for lines and inlined functions; frames after that have none

std::string readable(const char* name) {
  int status = 0;
  char* text = name[0] == '_' && name[1] == 'Z' ? abi::__cxa_demangle(name, nullptr, nullptr, &status) : nullptr;
  std::string out = text ? text : name;
  std::free(text);
  return out;
}

class DwUnwinder : public Unwinder {
 public:
  DwUnwinder(const Dw& dw, pid_t pid, const std::vector<Module>& modules, const UnwindOptions& options)
      : dw_(dw), pid_(pid), modules_(modules), sources_(options.sources), by_rules_(options.rules) {}
  ~DwUnwinder() override {
    if (dwfl_) dw_.dwfl_end(dwfl_);
  }

  bool open() {
    static const Dwfl_Callbacks kFiles = {findElf, findDebugInfo, nullptr, nullptr};
    static const Dwfl_Thread_Callbacks kThreads = {nextThread, getThread, readMemory, setRegisters, nullptr, nullptr};
    dwfl_ = dw_.dwfl_begin(&kFiles);
    if (!dwfl_) return false;
    dw_.dwfl_report_begin(dwfl_);
    for (const Module& m : modules_) {
      Dwfl_Module* module =
          dw_.dwfl_report_module(dwfl_, m.path == kVdso ? kVdso : openPath(pid_, m).c_str(), m.begin, m.end);
      void** data = nullptr;  // what findDebugInfo() gets
      if (module && sources_ &&
          dw_.dwfl_module_info(module, &data, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr))
        *data = const_cast<Dw*>(&dw_);
    }
    dw_.dwfl_report_end(dwfl_, nullptr, nullptr);
    if (by_rules_) rules_.emplace(dw_, dwfl_);
    return dw_.dwfl_attach_state(dwfl_, nullptr, pid_, &kThreads, this);
  }

  const std::vector<uint64_t>& walk(const Snapshot& snapshot, bool& complete) override {
    counters_.clear();
    if (rules_ && rules_->walk(snapshot, counters_, kMostFrames, complete)) return counters_;
    snapshot_ = &snapshot;
    cut_ = false;
    counters_.clear();
    const int ended = dw_.dwfl_getthread_frames(dwfl_, pid_, addFrame, this);
    complete = ended == 0 && !cut_ && counters_.size() < kMostFrames;
    return counters_;
  }

  const std::vector<NativeFrame>& at(uint64_t pc) override {
    const auto [known, added] = known_.try_emplace(pc);
    if (!added) return known->second;
    std::vector<NativeFrame>& all = known->second;
    NativeFrame frame;
    Dwfl_Module* module = dw_.dwfl_addrmodule(dwfl_, pc);
    if (!module) {
      all.push_back(frame);
      return all;
    }
    for (const Module& m : modules_)
      if (pc >= m.begin && pc < m.end) frame.file = m.path;
    GElf_Addr bias = 0;
    if (dw_.dwfl_module_getelf(module, &bias)) frame.address = pc - bias;
    GElf_Off offset = 0;
    GElf_Sym symbol{};
    if (const char* name = dw_.dwfl_module_addrinfo(module, pc, &offset, &symbol, nullptr, nullptr, nullptr))
      frame.function = readable(name);
    const bool loop = frame.function.starts_with("_PyEval_EvalFrameDefault");  // Python frames take its place
    if (sources_ && !loop && source_ns_ < kMostSourceNs) {
      const int64_t begin = rawClock();
      addInlined(module, pc, frame, all);
      source_ns_ += rawClock() - begin;
    }
    all.push_back(std::move(frame));
    return all;
  }

 private:
  static pid_t nextThread(Dwfl*, void*, void**) { return 0; }
  static bool getThread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool readMemory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
    DwUnwinder& u = *static_cast<DwUnwinder*>(self);
    const Snapshot& s = *u.snapshot_;
    const uint64_t at = address - s.stack_begin;
    if (at >= s.stack.size() || s.stack.size() - at < sizeof *word) {
      u.cut_ = true;
      return false;
    }
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

  std::string nameOf(Dwarf_Die& die) const {
    Dwarf_Attribute attribute;
    for (const unsigned kind : {unsigned{DW_AT_linkage_name}, unsigned{DW_AT_MIPS_linkage_name}})
      if (dw_.dwarf_attr_integrate(&die, kind, &attribute))
        if (const char* name = dw_.dwarf_formstring(&attribute)) return readable(name);
    const char* name = dw_.dwarf_diename(&die);
    return name ? name : "";
  }

  /// Gives `outer` its line, and appends the functions that were inlined into it.
  void addInlined(Dwfl_Module* module, uint64_t pc, NativeFrame& outer, std::vector<NativeFrame>& all) const {
    Dwarf_Addr bias = 0;
    Dwfl_Line* line = dw_.dwfl_module_getsrc(module, pc);
    int number = 0;
    const char* source = line ? dw_.dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
    std::string file = source ? source : "";
    std::optional<int64_t> at = source && number > 0 ? std::optional<int64_t>(number) : std::nullopt;
    Dwarf_Die* unit = dw_.dwfl_module_addrdie(module, pc, &bias);
    Dwarf_Die *innermost = nullptr, *scopes = nullptr;
    // The innermost scope; those around it as they were inlined, not as they were written.
    const int found = unit ? dw_.dwarf_getscopes(unit, pc - bias, &innermost) : 0;
    const int count = found > 0 ? dw_.dwarf_getscopes_die(&innermost[0], &scopes) : 0;
    for (int i = 0; i < count; ++i) {
      const int tag = dw_.dwarf_tag(&scopes[i]);
      if (tag == DW_TAG_subprogram) break;
      if (tag != DW_TAG_inlined_subroutine) continue;
      NativeFrame inlined = outer;
      inlined.function = nameOf(scopes[i]);
      inlined.source = file;
      inlined.line = at;
      all.push_back(std::move(inlined));
      // Whoever it was inlined into is at the line of the call; of which file, only its own debug entry says.
      Dwarf_Attribute attribute;
      Dwarf_Word call = 0;
      const bool known = dw_.dwarf_attr_integrate(&scopes[i], DW_AT_call_line, &attribute) &&
                         dw_.dwarf_formudata(&attribute, &call) == 0;
      at = known ? std::optional<int64_t>(static_cast<int64_t>(call)) : std::nullopt;
    }
    std::free(scopes);
    std::free(innermost);
    outer.source = file;
    outer.line = at;
  }

  const Dw& dw_;
  pid_t pid_;
  const std::vector<Module>& modules_;
  Dwfl* dwfl_ = nullptr;
  const Snapshot* snapshot_ = nullptr;
  bool cut_ = false;  // more of the stack was asked for than was copied: libdw takes that for its end
  std::vector<uint64_t> counters_;
  std::unordered_map<uint64_t, std::vector<NativeFrame>> known_;
  const bool sources_, by_rules_;
  std::optional<UnwindRules> rules_;
  int64_t source_ns_ = 0;  // that looking for sources took
};

}  // namespace

Result<std::unique_ptr<Unwinder>> Unwinder::create(pid_t pid, const std::vector<Module>& modules,
                                                   const UnwindOptions& options) {
  const Result<const Dw*> dw = Dw::load();
  if (!dw) return dw.status();
  auto unwinder = std::make_unique<DwUnwinder>(**dw, pid, modules, options);
  if (!unwinder->open()) return Status::unsupported("native frames: libdw cannot read the program's files");
  return std::unique_ptr<Unwinder>(std::move(unwinder));
}

}  // namespace tracesmith::process

#else

namespace tracesmith::process {

Result<std::unique_ptr<Unwinder>> Unwinder::create(pid_t, const std::vector<Module>&, const UnwindOptions&) {
  return Status::unsupported("this tracesmith was built without native frames (libdw-dev was missing)");
}

}  // namespace tracesmith::process

#endif

namespace tracesmith::process {

std::vector<NativeFrame> Unwinder::unwind(const Snapshot& snapshot, bool& complete) {
  std::vector<NativeFrame> frames;
  for (const uint64_t place : walk(snapshot, complete)) {
    const std::vector<NativeFrame>& all = at(place);
    frames.insert(frames.end(), all.begin(), all.end());
  }
  return frames;
}

}  // namespace tracesmith::process
