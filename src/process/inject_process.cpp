// The process that inject() starts: a program that has threads must not go on without exec() after a fork, because
// locks of the allocator may be held in it for good.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/library.hpp"
#include "process/borrowed_thread.hpp"
#include "process/inject.hpp"

namespace tracesmith::process {
namespace {

/// For what has no limit of its own: the start of the process on a busy machine, and a look at all threads.
constexpr int64_t kGraceNs = 15'000'000'000;
constexpr size_t kMostAnswer = 64 << 10;

/// Closes itself.
struct Descriptor {
  int fd = -1;
  ~Descriptor() { close(); }
  void close() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

/// The answer as text: a code, the numbers of Injected, and behind a line's end the message.
std::string toText(const Result<Injected>& done) {
  const Injected numbers = done ? *done : Injected{};
  std::string text = std::to_string(static_cast<int>(done.status().code()));
  for (const int64_t n : {int64_t{numbers.value}, int64_t{numbers.thread}, numbers.waited_ns, numbers.borrowed_ns})
    text += ' ' + std::to_string(n);
  return text + '\n' + done.status().message();
}

Result<Injected> fromText(const std::string& text) {
  const size_t line = text.find('\n');
  long long code = -1, value = 0, thread = 0, waited = 0, borrowed = 0;
  if (line == std::string::npos ||
      std::sscanf(text.c_str(), "%lld %lld %lld %lld %lld", &code, &value, &thread, &waited, &borrowed) != 5 ||
      code < 0 || code >= static_cast<long long>(kCodes))
    return Status::io("the process that was to do it ended without an answer");
  if (code != 0) return Status(static_cast<Code>(code), text.substr(line + 1));
  return Injected{static_cast<int32_t>(value), static_cast<pid_t>(thread), waited, borrowed};
}

/// Starts it apart from this process: no signal of a terminal or a group reaches it, and it blocks all others.
int spawn(const std::string& program, std::vector<std::string> words, int in, int out, pid_t& pid) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  sigset_t all;
  ::sigfillset(&all);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// All that it says until it ends. False: it did not in time.
bool readAll(int fd, int64_t deadline, std::string& text) {
  char buffer[4096];
  while (text.size() < kMostAnswer) {
    const int64_t left_ns = deadline - rawClock();
    pollfd p{fd, POLLIN, 0};
    const int n = left_ns <= 0 ? 0 : ::poll(&p, 1, static_cast<int>(left_ns / 1'000'000 + 1));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(buffer, static_cast<size_t>(got));
  }
  return true;
}

template <typename Number>
bool parse(const char* word, Number& number) {
  const char* end = word + std::strlen(word);
  return std::from_chars(word, end, number).ptr == end;
}

Status readStandardInput(std::string& text) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::io(std::string("cannot read the argument: ") + std::strerror(errno));
    if (got == 0) return {};
    text.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

Result<Injected> inject(pid_t pid, const Injection& injection) {
  TS_TRY(canBorrowThreads());
  if (pid == ::getpid()) return Status::invalid("this is tracesmith itself");
  const Result<std::string> program = ownProgram();
  if (!program) return Status::unsupported("entering a process needs " + program.status().message());
  const std::string name = "process " + std::to_string(pid);
  Descriptor argument{::memfd_create("argument", MFD_CLOEXEC)};
  const auto size = static_cast<ssize_t>(injection.argument.size());
  int ends[2];
  if (argument.fd < 0 || ::write(argument.fd, injection.argument.data(), injection.argument.size()) != size ||
      ::lseek(argument.fd, 0, SEEK_SET) != 0 || ::pipe2(ends, O_CLOEXEC) != 0)
    return Status::io("cannot enter " + name + ": " + std::strerror(errno));
  Descriptor out{ends[0]}, in{ends[1]};
  pid_t child = -1;
  const int error = spawn(*program,
                          {"tracesmith", kInjectCommand, std::to_string(pid), injection.library, injection.function,
                           std::to_string(injection.patience_ns), injection.despite_seccomp ? "1" : "0"},
                          argument.fd, in.fd, child);
  if (error != 0) return Status::io("cannot start " + *program + " to enter " + name + ": " + std::strerror(error));
  in.close();
  std::string text;
  const int64_t begin = rawClock();
  const bool ended = readAll(out.fd, begin + injection.patience_ns + kGraceNs, text);
  if (!ended) ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!ended)
    return Status::timeout("the process that was to enter " + name + " had not ended after " +
                           std::to_string((rawClock() - begin) / 1'000'000'000) + " s and was killed: try again");
  return fromText(text);
}

int runInject(int argc, char** argv) {
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  pid_t pid = 0;
  Injection injection;
  int despite = 0;
  if (argc != 7 || !parse(argv[2], pid) || !parse(argv[5], injection.patience_ns) || !parse(argv[6], despite)) return 2;
  injection.library = argv[3];
  injection.function = argv[4];
  injection.despite_seccomp = despite != 0;
  const Status read = readStandardInput(injection.argument);
  const std::string text = toText(read ? injectHere(pid, injection) : Result<Injected>(read));
  (void)!::write(STDOUT_FILENO, text.data(), std::min(text.size(), kMostAnswer));
  ::_exit(0);  // nothing is worth tidying up
}

}  // namespace tracesmith::process
