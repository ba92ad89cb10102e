#include "process/eval.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "base/clock.hpp"
#include "process/attach.hpp"
#include "process/backtrace.hpp"
#include "process/modules.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

constexpr size_t kMostCode = 64 << 10, kMostAnswer = 4 << 20;
constexpr auto kLook = std::chrono::milliseconds(5);
constexpr double kPatienceS = 10;  // for a place where the probe can be loaded
constexpr double kGraceS = 1;      // for the interpreter to let us in, beyond the code's own time

/// Runs the code in the process. It keeps what is printed by this thread only, and interrupts code of Python that takes
/// too long. Answer: three texts, with their lengths before them.
constexpr const char* kRunner = R"(
import ast, io, os, sys, threading, time, traceback

def main():
    me, most = threading.get_ident(), 65536
    printed = io.StringIO()

    class Printed:
        def __init__(self, to): self._to = to
        def write(self, text):
            if threading.get_ident() != me: return self._to.write(text)
            printed.write(text[:max(0, most + 1 - printed.tell())])
            return len(text)
        def flush(self):
            if threading.get_ident() != me: self._to.flush()
        def __getattr__(self, name): return getattr(self._to, name)

    if time.time() > too_late: return  # nobody waits for it any more
    lock, ended = threading.RLock(), threading.Event()
    def started(self): Exception.__init__(self, 'stopped after %g s' % seconds)
    late = type('TimeoutError', (TimeoutError,), {'__init__': started, '__module__': 'builtins'})
    def watch():
        if ended.wait(seconds): return
        import ctypes
        with lock:
            if not ended.is_set(): ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(late))
    def end():
        with lock: ended.set()

    result, failed, value = '', '', None
    before = sys.stdout, sys.stderr
    mine = Printed(before[0]), Printed(before[1])
    sys.stdout, sys.stderr = mine
    try:
        tree = ast.parse(code, '<eval>')
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        names = sys.modules['__main__'].__dict__
        first = compile(tree, '<eval>', 'exec')
        try: threading.Thread(target=watch, name='tracesmith', daemon=True).start()
        except RuntimeError: pass  # the interpreter is about to end: then nothing interrupts the code
        exec(first, names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), '<eval>', 'eval'), names)
            if value is not None: result = repr(value)
        end()
    except BaseException as error:
        end()
        at = error.__traceback__
        while at and at.tb_frame.f_code.co_filename != '<eval>': at = at.tb_next
        failed = ''.join(traceback.format_exception(type(error), error, at))
    finally:
        if sys.stdout is mine[0]: sys.stdout = before[0]
        if sys.stderr is mine[1]: sys.stderr = before[1]
    texts = [('=' if value is not None else '-') + result, failed, printed.getvalue()]
    cut = any(len(text) > most for text in texts)
    parts = [text[:most].encode('utf-8', 'replace') for text in texts]
    answer = b'%d %d %d %d\n' % (cut, len(parts[0]), len(parts[1]), len(parts[2])) + b''.join(parts)
    try: os.mkdir(os.path.dirname(path), 0o700)
    except OSError: pass
    if time.time() > too_late: return
    file = os.open(path + '.new', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(file, answer)
    os.close(file)
    os.rename(path + '.new', path)

try: main()
except BaseException: pass  # whatever it is: the program must not end of it
)";

/// A text of Python's, whatever is in it.
std::string quoted(const std::string& text) {
  std::string out = "bytes.fromhex('";
  char two[3];
  for (const char c : text) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    out += two;
  }
  return out + "').decode('utf-8', 'replace')";
}

std::optional<std::string> readAnswer(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::string bytes;
  struct stat st;
  if (::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= static_cast<off_t>(kMostAnswer)) {
    bytes.resize(static_cast<size_t>(st.st_size));
    if (::pread(fd, bytes.data(), bytes.size(), 0) != st.st_size) bytes.clear();
  }
  ::close(fd);
  return bytes;
}

Result<Evaluated> parse(const std::string& bytes) {
  int cut = 0, head = 0;
  size_t lengths[3] = {};
  if (std::sscanf(bytes.c_str(), "%d %zu %zu %zu%n", &cut, &lengths[0], &lengths[1], &lengths[2], &head) != 4 ||
      lengths[0] > bytes.size() || lengths[1] > bytes.size() || lengths[2] > bytes.size() || lengths[0] == 0 ||
      static_cast<size_t>(head) + 1 + lengths[0] + lengths[1] + lengths[2] != bytes.size())
    return Status::corrupt("the answer of the process cannot be understood");
  size_t at = static_cast<size_t>(head) + 1;
  Evaluated answer;
  if (bytes[at] == '=') answer.result = bytes.substr(at + 1, lengths[0] - 1);
  at += lengths[0];
  answer.exception = bytes.substr(at, lengths[1]);
  answer.output = bytes.substr(at + lengths[1]);
  answer.truncated = cut != 0;
  return answer;
}

/// Why there is no answer: somebody has the interpreter's lock, or the code is somewhere in C.
Status noAnswer(pid_t pid, double timeout_s) {
  const std::string name = "process " + std::to_string(pid);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g s", timeout_s);
  const Result<Stacks> stacks = backtrace(pid, {});
  if (!stacks) return stacks.status();
  for (const ThreadStack& t : stacks->threads)
    for (const Frame& f : t.frames)
      if (f.file == "<eval>")
        return Status::timeout("the code did not end within " + std::string(seconds) + ", and is in " +
                               t.frames.front().function + ": it goes on in " + name);
  for (const ThreadStack& t : stacks->threads)
    if (t.holds_gil.value_or(false) && !t.frames.empty())
      return Status::timeout(name + " did not run the code within " + seconds +
                             ": a thread keeps the interpreter's lock, in " + t.frames[0].function + " (" +
                             t.frames[0].file + ":" + std::to_string(t.frames[0].line.value_or(0)) +
                             "); `tracesmith backtrace` shows it without the lock");
  return Status::timeout(name + " did not run the code within " + seconds);
}

}  // namespace

Result<Evaluated> evaluate(pid_t pid, const std::string& code, const EvalOptions& options) {
  if (code.size() > kMostCode) return Status::invalid("the code is longer than 64 kB");
  if (!looksLikePython("", pid)) {
    const Result<std::vector<Module>> mapped = modules(pid);
    if (!mapped) return mapped.status();
    return Status::unsupported("process " + std::to_string(pid) + " is not a Python process");
  }
  std::string seen;
  const Result<std::string> folder = privateFolder(pid, seen);
  if (!folder) return folder.status();
  const std::string file =
      "/eval-" + std::to_string(::getpid()) + "-" + std::to_string(pid) + "-" + std::to_string(rawClock());
  char numbers[128];
  std::snprintf(numbers, sizeof numbers, "'seconds': %.3f, 'too_late': %.3f", options.timeout_s,
                static_cast<double>(unixClock()) / 1e9 + options.timeout_s + kGraceS + kPatienceS);
  Injection injection;
  injection.library = options.probe;
  injection.function = "tracesmith_probe_eval";
  injection.argument = "exec(" + quoted(kRunner) + ", {'code': " + quoted(code) +
                       ", 'path': " + quoted(*folder + file) + ", " + numbers + "})\n";
  injection.despite_seccomp = options.despite_seccomp;
  injection.patience_ns = static_cast<int64_t>(kPatienceS * 1e9);
  const Result<Injected> injected = inject(pid, injection);
  if (!injected) return injected.status();
  if (injected->value != 0)
    return Status::unsupported("process " + std::to_string(pid) + " has no Python interpreter that can be called");
  const int64_t deadline = rawClock() + static_cast<int64_t>((options.timeout_s + kGraceS) * 1e9);
  while (true) {
    if (const std::optional<std::string> bytes = readAnswer(seen + file)) {
      ::unlink((seen + file).c_str());
      return parse(*bytes);
    }
    if (!vitals("", pid)) return Status::notFound("process " + std::to_string(pid) + " has ended");
    if (options.stop && *options.stop) return Status::cancelled("nobody waits for the answer any more");
    if (rawClock() > deadline) return noAnswer(pid, options.timeout_s);
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace tracesmith::process
