#include "process/python.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "process/python_lines.hpp"

namespace tracesmith::process {
namespace {

constexpr uint64_t kMostCharacters = 4096;
constexpr uint64_t kMostLineBytes = 1 << 20;
constexpr size_t kMostInterpreters = 256;
constexpr int kAttempts = 5;
constexpr size_t kCompared = 512;  // frames that are read a second time
constexpr size_t kMostCodes = 1 << 16;
constexpr size_t kMostChecked = 1 << 18;
constexpr int kNoPython = 3;  // owners of frames from here on: not Python code, but what calls it

/// Notices when a chain of pointers leads back into itself (Brent's way: without memory of where it was).
class Circle {
 public:
  bool closed(uint64_t address) {
    if (address == mark_) return true;
    if (++steps_ == limit_) {
      mark_ = address;
      steps_ = 0;
      limit_ *= 2;
    }
    return false;
  }

 private:
  uint64_t mark_ = 0;
  uint64_t steps_ = 0, limit_ = 2;
};

}  // namespace

bool alike(const RawStack& a, const RawStack& b) {
  bool same = a.frames.size() == b.frames.size() && !a.damaged && !b.damaged;
  for (size_t i = 0; same && i < a.frames.size(); ++i)
    same = a.frames[i].code == b.frames[i].code && (i == 0 || a.frames[i] == b.frames[i]);
  return same;
}

size_t commonCallers(const RawStack& a, const RawStack& b) {
  const auto [left, right] = std::mismatch(a.frames.rbegin(), a.frames.rend(), b.frames.rbegin(), b.frames.rend());
  return static_cast<size_t>(left - a.frames.rbegin());
}

uint64_t PythonStacks::pointer(uint64_t address) { return memory_.get<uint64_t>(address).value_or(0); }

bool PythonStacks::isA(uint64_t object, uint64_t type) {
  if (object == 0 || object % 8 != 0) return false;
  const std::optional<uint64_t> found = memory_.get<uint64_t>(object + python_.layout.object_type);
  return found && (type == 0 || *found == type);
}

uint64_t PythonStacks::gilHolder(uint64_t interpreter, bool& known) {
  const PythonLayout& l = python_.layout;
  known = !l.free_threaded;
  if (!known) return 0;
  if (l.runtime_current != PythonLayout::kNone) return pointer(python_.runtime + l.runtime_current);
  const uint64_t gil = pointer(interpreter + l.interpreter_gil);
  const std::optional<int32_t> locked = gil ? memory_.get<int32_t>(gil + l.gil_locked) : std::nullopt;
  known = locked.has_value();
  return known && *locked == 1 ? pointer(gil + l.gil_holder) : 0;
}

std::optional<std::vector<PythonThread>> PythonStacks::threads() {
  const PythonLayout& l = python_.layout;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    memory_.forget();
    std::vector<PythonThread> all;
    bool sane = true;
    Circle interpreters;
    uint64_t interpreter = pointer(python_.runtime + l.runtime_interpreters);
    for (size_t i = 0; interpreter != 0 && sane && i < kMostInterpreters; ++i) {
      bool known = false;
      const uint64_t holder = gilHolder(interpreter, known);
      Circle circle;
      for (uint64_t state = pointer(interpreter + l.interpreter_threads); state != 0 && all.size() < kMostThreads;) {
        const std::optional<uint64_t> id = memory_.get<uint64_t>(state + l.thread_id);
        const std::optional<uint64_t> next = memory_.get<uint64_t>(state + l.thread_next);
        sane = state % 8 == 0 && id && next && !circle.closed(state);
        if (!sane) break;
        PythonThread thread{state, *id, std::nullopt, std::nullopt};
        if (l.thread_native_id != PythonLayout::kNone)
          if (const auto native = memory_.get<uint64_t>(state + l.thread_native_id); native && *native != 0)
            thread.native_id = static_cast<int64_t>(*native & 0xffffffff);
        if (known) thread.holds_gil = state == holder;
        all.push_back(thread);
        state = *next;
      }
      sane = sane && !interpreters.closed(interpreter);
      interpreter = pointer(interpreter + l.interpreter_next);
    }
    if (sane && !all.empty()) return all;
  }
  return std::nullopt;
}

void PythonStacks::readHolders(std::vector<PythonThread>& threads) {
  memory_.forget();
  std::vector<uint64_t> holders;
  bool all_known = true;
  uint64_t interpreter = pointer(python_.runtime + python_.layout.runtime_interpreters);
  for (size_t i = 0; interpreter != 0 && i < kMostInterpreters; ++i) {
    bool known = false;
    holders.push_back(gilHolder(interpreter, known));
    all_known &= known;
    interpreter = pointer(interpreter + python_.layout.interpreter_next);
  }
  for (PythonThread& t : threads) {
    t.holds_gil.reset();
    if (all_known) t.holds_gil = std::find(holders.begin(), holders.end(), t.state) != holders.end();
  }
}

uint64_t PythonStacks::topFrame(uint64_t thread) {
  const PythonLayout& l = python_.layout;
  const uint64_t frame = pointer(thread + l.thread_frame);
  if (l.cframe_frame == PythonLayout::kNone || frame == 0) return frame;
  return pointer(frame + l.cframe_frame);
}

/// `python` false: not Python code, but where the interpreter's loop was called.
bool PythonStacks::readFrame(uint64_t address, RawFrame& frame, uint64_t& previous, bool& python) {
  const PythonLayout& l = python_.layout;
  if (address % 8 != 0) return false;
  const std::optional<uint64_t> before = memory_.get<uint64_t>(address + l.frame_previous);
  const std::optional<uint64_t> code = memory_.get<uint64_t>(address + l.frame_code);
  if (!before || !code) return false;
  previous = *before;
  frame.address = address;
  python = true;
  frame.code = *code & ~uint64_t{3};  // from 3.14 on with marks in its lowest bits
  if (l.code_begin == PythonLayout::kNone) {
    const std::optional<int32_t> last = memory_.get<int32_t>(address + l.frame_instruction);
    if (!last) return false;
    frame.offset = l.version >= std::pair(3, 10) ? int64_t{*last} * 2 : *last;
    frame.entry = true;
    return isCode(frame.code);
  }
  const std::optional<uint8_t> owner = memory_.get<uint8_t>(address + l.frame_owner);
  const std::optional<uint64_t> at = memory_.get<uint64_t>(address + l.frame_instruction);
  if (!owner || !at) return false;
  if (*owner >= kNoPython) {
    python = false;
    return true;
  }
  frame.offset = static_cast<int64_t>(*at - (frame.code + l.code_begin));
  if (l.frame_is_entry != PythonLayout::kNone)
    frame.entry = memory_.get<uint8_t>(address + l.frame_is_entry).value_or(0) != 0;
  return isCode(frame.code);
}

bool PythonStacks::isCode(uint64_t address) {
  uint64_t& checked = checked_[address];
  if (checked != walks_ && isA(address, python_.code_type)) checked = walks_;
  return checked == walks_;
}

RawStack PythonStacks::walk(const PythonThread& thread, size_t most) {
  ++walks_;
  if (checked_.size() > kMostChecked) checked_.clear();
  return walkAgain(thread, most);
}

RawStack PythonStacks::walkAgain(const PythonThread& thread, size_t most) {
  RawStack stack;
  Circle circle;
  size_t others = 0;
  for (uint64_t address = topFrame(thread.state); address != 0;) {
    if (stack.frames.size() >= most || others > most) {
      stack.truncated = true;
      break;
    }
    RawFrame frame;
    uint64_t previous = 0;
    bool python = false;
    if (circle.closed(address) || !readFrame(address, frame, previous, python)) {
      stack.damaged = true;
      break;
    }
    if (python)
      stack.frames.push_back(frame);
    else if (++others; !stack.frames.empty())
      stack.frames.back().entry = true;
    address = previous;
  }
  if (!stack.frames.empty() && !stack.truncated && !stack.damaged) stack.frames.back().entry = true;
  return stack;
}

RawStack PythonStacks::walkRunning(const PythonThread& thread) {
  RawStack last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    memory_.forget();
    last = walk(thread);
    memory_.forget();
    // Read twice the same, but for how far the innermost frame has come in its own code: that is how it was.
    const RawStack again = walkAgain(thread, kCompared);
    const size_t n = std::min(again.frames.size(), kCompared);
    bool same = n == std::min(last.frames.size(), kCompared);
    for (size_t i = 0; same && i < n; ++i)
      same = again.frames[i].code == last.frames[i].code && (i == 0 || again.frames[i] == last.frames[i]);
    if (same && !last.damaged) return last;
    last.changed = !same;
  }
  return last;
}

std::optional<std::string> PythonStacks::readBytes(uint64_t object) {
  if (!isA(object, python_.bytes_type)) return std::nullopt;
  const std::optional<uint64_t> size = memory_.get<uint64_t>(object + python_.layout.bytes_length);
  if (!size || *size > kMostLineBytes) return std::nullopt;
  std::string bytes(*size, '\0');
  if (!memory_.read(object + python_.layout.bytes_begin, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

std::optional<std::string> PythonStacks::readString(uint64_t object) {
  const PythonLayout& l = python_.layout;
  if (!isA(object, python_.string_type)) return std::nullopt;
  const std::optional<uint64_t> length = memory_.get<uint64_t>(object + l.string_length);
  const std::optional<uint32_t> state = memory_.get<uint32_t>(object + l.string_state);
  if (!length || *length > kMostCharacters || !state) return std::nullopt;
  // Bits that say whether it is interned come first: 2 of them, 8 without the GIL, 16 in 3.14. The kind is never 0.
  for (const int shift : {2, 8, 16}) {
    const uint32_t kind = *state >> shift & 7;
    const bool compact = *state >> (shift + 3) & 1, ascii = *state >> (shift + 4) & 1;
    if ((kind != 1 && kind != 2 && kind != 4) || !compact) continue;
    const uint64_t begin = object + l.string_ascii + (ascii ? 0 : l.version >= std::pair(3, 12) ? 16 : 24);
    std::string bytes(*length * kind, '\0');
    if (!memory_.read(begin, bytes.data(), bytes.size())) return std::nullopt;
    if (ascii) return bytes;
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += kind) {
      uint32_t c = 0;
      std::memcpy(&c, bytes.data() + i, kind);
      appendCodePoint(out, c);
    }
    return out;
  }
  return std::nullopt;
}

std::optional<PythonStacks::Identity> PythonStacks::identityOf(uint64_t code) {
  const PythonLayout& l = python_.layout;
  Identity found;
  if (l.code_qualified_name != PythonLayout::kNone) found.name = pointer(code + l.code_qualified_name);
  if (found.name == 0) found.name = pointer(code + l.code_name);
  found.file = pointer(code + l.code_file);
  found.lines = pointer(code + l.code_lines);
  const std::optional<int32_t> first = memory_.get<int32_t>(code + l.code_first_line);
  if (!first) return std::nullopt;
  found.first_line = *first;
  return found;
}

const PythonStacks::Code* PythonStacks::code(uint64_t address) {
  if (codes_.size() > kMostCodes) codes_.clear();
  const auto [at, added] = codes_.try_emplace(address);
  if (added && isA(address, python_.code_type)) {
    const std::optional<Identity> identity = identityOf(address);
    if (!identity) return nullptr;
    Code code;
    code.identity = *identity;
    std::optional<std::string> name = readString(identity->name);
    if (!name) name = readString(pointer(address + python_.layout.code_name));
    std::optional<std::string> file = readString(identity->file);
    std::optional<std::string> lines = readBytes(identity->lines);
    if (name && file && lines) {
      appendUtf8(code.frame.function, *name);
      appendUtf8(code.frame.file, *file);
      code.lines = std::move(*lines);
      code.first_line = identity->first_line;
      at->second = std::move(code);
    }
  }
  return at->second ? &*at->second : nullptr;
}

bool PythonStacks::stillThere(const RawFrame& frame) {
  const auto at = codes_.find(frame.code);
  if (at == codes_.end()) return false;
  const std::optional<Identity> now = identityOf(frame.code);
  if (now && at->second && at->second->identity == *now) return true;
  codes_.erase(at);
  return false;
}

std::optional<PythonFrame> PythonStacks::resolve(const RawFrame& frame) {
  const Code* found = code(frame.code);
  if (!found) return std::nullopt;
  PythonFrame out = found->frame;
  out.line = lineAt(python_.layout.version, found->lines, found->first_line, frame.offset);
  return out;
}

}  // namespace tracesmith::process
