// The Python interpreter inside a process: its threads and what each is doing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "process/memory.hpp"
#include "process/modules.hpp"
#include "process/python_layout.hpp"

namespace tracesmith::process {

/// Where the interpreter is, and of which version.
struct Interpreter {
  PythonLayout layout;
  uint64_t runtime = 0;                                     ///< address of _PyRuntime
  uint64_t code_type = 0, string_type = 0, bytes_type = 0;  ///< of the classes; 0: not known, then not checked
};

/// Nothing if none of these modules is a Python interpreter.
Result<std::optional<Interpreter>> findInterpreter(pid_t pid, const std::vector<Module>& modules, Memory& memory);

struct PythonThread {
  uint64_t state = 0;                ///< address of its PyThreadState
  uint64_t id = 0;                   ///< threading.get_ident()
  std::optional<int64_t> native_id;  ///< of the operating system, as the process sees it; from 3.11 on
  std::optional<bool> holds_gil;     ///< nothing: cannot be told, or there is no GIL
};

/// A frame before its names are looked up: this much is read while a thread may be stopped.
struct RawFrame {
  uint64_t code = 0;
  int64_t offset = 0;    ///< of the instruction in the code, in bytes; negative: not begun
  bool entry = false;    ///< the first of those that one call of the interpreter's loop runs
  uint64_t address = 0;  ///< of the frame itself
  bool operator==(const RawFrame& o) const { return code == o.code && offset == o.offset && entry == o.entry; }
};

struct RawStack {
  std::vector<RawFrame> frames;  ///< the innermost first
  bool truncated = false;        ///< there are more than were read
  bool damaged = false;          ///< it led to nonsense: what is above that is there
  bool changed = false;          ///< the thread moved while it was read
};

struct PythonFrame {
  std::string function, file;
  std::optional<int64_t> line;
};

struct PythonVariable {
  std::string name, value;  ///< the value about as repr() shows it, or *** if it may be a secret
};

/// Whether two readings of a thread are the same, but for how far the innermost frame has come in its own code.
bool alike(const RawStack& a, const RawStack& b);
/// How many frames, from the outermost one on, are the same in both.
size_t commonCallers(const RawStack& a, const RawStack& b);

/// Reads from `memory`, which stays the caller's. One thread.
class PythonStacks {
 public:
  static constexpr size_t kMostFrames = 200000, kMostThreads = 65536;

  PythonStacks(const Interpreter& interpreter, Memory& memory) : python_(interpreter), memory_(memory) {}

  /// Threads that have an interpreter state; nothing if they could not be read consistently.
  std::optional<std::vector<PythonThread>> threads();
  /// Who of these has the GIL now.
  void readHolders(std::vector<PythonThread>& threads);
  /// As it is right now; says whether it led to nonsense.
  RawStack walk(const PythonThread& thread, size_t most = kMostFrames);
  /// The same a moment later, by memory that was forgotten meanwhile: what was found to be code is not looked at again.
  RawStack walkAgain(const PythonThread& thread, size_t most = kMostFrames);
  /// Of a thread that runs: read again until it did not change meanwhile, a few times at most. Tells where it did.
  RawStack walkRunning(const PythonThread& thread);
  /// Nothing: there is no code object (any more).
  std::optional<PythonFrame> resolve(const RawFrame& frame);
  /// Variables that have a value, as they are now: empty if the frame has gone meanwhile.
  std::vector<PythonVariable> variables(const RawFrame& frame);
  /// Whether the code of a frame is still what resolve() said last; if not, it is looked up anew.
  bool stillThere(const RawFrame& frame);

 private:
  /// What tells a code object from another one that has its address later.
  struct Identity {
    uint64_t name = 0, file = 0, lines = 0;
    int32_t first_line = 0;
    bool operator==(const Identity&) const = default;
  };
  struct Code {
    PythonFrame frame;
    int64_t first_line = 0;
    std::string lines;
    Identity identity;
  };
  std::optional<Identity> identityOf(uint64_t code);
  bool isCode(uint64_t address);
  uint64_t topFrame(uint64_t thread);
  bool readFrame(uint64_t address, RawFrame& frame, uint64_t& previous, bool& python);
  std::string className(uint64_t object, uint64_t& flags);
  std::string valueOf(uint64_t object, int depth);
  std::string itemsOf(uint64_t items, uint64_t count, int depth);
  std::vector<uint64_t> tuple(uint64_t object, uint64_t most);
  const Code* code(uint64_t address);
  std::optional<std::string> readString(uint64_t object);
  std::optional<std::string> readBytes(uint64_t object);
  bool isA(uint64_t object, uint64_t type);
  uint64_t pointer(uint64_t address);
  uint64_t gilHolder(uint64_t interpreter, bool& known);

  const Interpreter python_;
  Memory& memory_;
  std::unordered_map<uint64_t, std::optional<Code>> codes_;
  std::unordered_map<uint64_t, uint64_t> checked_;  // code objects, and in which walk they were looked at
  uint64_t walks_ = 1;
};

}  // namespace tracesmith::process
