#include "server/sources/query_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/text.hpp"

namespace tracesmith::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMemoryBytes = 1'000'000'000;
constexpr uint64_t kMostSpillBytes = 4'000'000'000;
constexpr uint64_t kSpillShare = 10;          // a tenth of the free disk: segments of agents come first
constexpr uint64_t kMostBytes = 256'000'000;  // of a result
constexpr size_t kHoldBytes = 1 << 20;        // of a result in memory; a larger one waits in a file

/// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

Result<std::unique_ptr<QueryProcess>> QueryProcess::start(const Options& options) {
  std::unique_ptr<QueryProcess> process(new QueryProcess());
  Result<TemporaryFolder> spill = TemporaryFolder::create(options.folder);
  if (!spill) return spill.status();
  process->spill_ = std::move(*spill);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(process->spill_.path(), error);
  query::WorkerOptions worker;
  worker.trace = options.trace;
  worker.format = options.format;
  worker.max_rows = options.max_rows;
  worker.memory_bytes = kMemoryBytes;
  worker.spill = process->spill_.path();
  worker.spill_bytes =
      error ? kMostSpillBytes : std::clamp<uint64_t>(space.available / kSpillShare, 1, kMostSpillBytes);
  worker.time_ms = std::max<int64_t>(1, std::llround(options.seconds * 1000));
  worker.parent = ::getpid();
  process->client_ = options.client;
  process->seconds_ = options.seconds;
  process->deadline_ = Clock::now() + std::chrono::milliseconds(worker.time_ms);
  TS_TRY(process->spawn(options, worker));
  return process;
}

Status QueryProcess::spawn(const Options& options, const query::WorkerOptions& worker) {
  Descriptor in(::memfd_create("statement", MFD_CLOEXEC));
  int out[2], err[2];
  if (in.get() < 0 || ::pipe2(out, O_CLOEXEC) != 0) return errnoStatus("make a pipe for", "a query");
  Descriptor out_read(out[0]), out_write(out[1]);
  if (::pipe2(err, O_CLOEXEC) != 0) return errnoStatus("make a pipe for", "a query");
  Descriptor err_read(err[0]), err_write(err[1]);
  const auto size = static_cast<ssize_t>(options.sql.size());
  if (::write(in.get(), options.sql.data(), options.sql.size()) != size || ::lseek(in.get(), 0, SEEK_SET) != 0)
    return errnoStatus("write", "the statement");

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (int n : {SIGPIPE, SIGINT, SIGTERM, SIGALRM, SIGXCPU}) ::sigaddset(&usual, n);
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err_write.get(), STDERR_FILENO);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C is for the server
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words = worker.toArguments();
  words.insert(words.begin(), "tracesmith");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, options.program.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    return Status::io("cannot start a process for the query: " + std::string(std::strerror(error)));
  }
  out_ = out_read.release();
  err_ = err_read.release();
  return {};
}

QueryProcess::~QueryProcess() {
  kill();
  for (int fd : {out_, err_})
    if (fd >= 0) ::close(fd);
}

void QueryProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Status QueryProcess::timeout() const {
  return Status::timeout("the query took longer than its " + humanNs(seconds_ * 1e9) +
                         "; raise timeout_s to allow more");
}

Result<QueryResult> QueryProcess::result() {
  QueryResult result;
  std::string piece;
  for (bool more = true; more;) {
    piece.clear();
    TS_TRY(read(piece, more));
    if (!result.file.isOpen() && result.body.size() + piece.size() > kHoldBytes) {
      const std::string path = spill_.path() + "/result";
      Result<File> file = File::create(path);
      if (!file) return file.status();
      TS_TRY(file->write(result.body));
      result.body.clear();
      result.file = std::move(*file);
    }
    if (result.file.isOpen())
      TS_TRY(result.file.write(piece));
    else
      result.body += piece;
  }
  if (result.file.isOpen()) {
    Result<File> file = File::openRead(result.file.path());
    if (!file) return file.status();
    result.file = std::move(*file);
  }
  query::WorkerReport report;
  if (!report.parse(said_.substr(said_.rfind('\n') + 1)))
    return Status::io("the query's process ended without reporting its result");
  result.rows = report.rows;
  result.truncated = report.truncated;
  spill_.remove();
  return result;
}

/// Appends the next bytes of the result to `out`; false in `more` when it was whole. A failure ends the query.
Status QueryProcess::read(std::string& out, bool& more) {
  more = true;
  for (;;) {
    pollfd fds[2] = {{out_, POLLIN, 0}, {client_, POLLRDHUP, 0}};  // poll() passes over -1
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    const int n = left <= 0 ? 0 : ::poll(fds, 2, static_cast<int>(left));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      kill();
      return timeout();
    }
    if (fds[1].revents != 0) {
      kill();
      return Status::cancelled("the client disconnected");
    }
    break;
  }
  char buffer[1 << 16];
  const ssize_t got = ::read(out_, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR ? Status() : errnoStatus("read from", "the query's process");
  if (got == 0) {
    more = false;
    return end();
  }
  bytes_ += static_cast<uint64_t>(got);
  if (bytes_ > kMostBytes) {
    kill();
    return Status::exhausted("the result is larger than " + humanBytes(kMostBytes) + ": ask for fewer rows or columns");
  }
  out.append(buffer, static_cast<size_t>(got));
  return {};
}

/// It closed its output: how did it end?
Status QueryProcess::end() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0)
    if (errno != EINTR) return errnoStatus("wait for", "the query's process");
  pid_ = -1;
  char text[1 << 14];
  ::fcntl(err_, F_SETFL, O_NONBLOCK);
  const ssize_t got = std::max<ssize_t>(0, ::read(err_, text, sizeof text));
  said_.assign(text, static_cast<size_t>(got));
  while (said_.ends_with('\n')) said_.pop_back();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (number == SIGALRM || number == SIGXCPU) return timeout();
  const Code code = WIFEXITED(status) ? query::codeOf(WEXITSTATUS(status)) : Code::kOk;
  if (code == Code::kOk)  // the kernel's choice when memory is short, or code that did not expect malloc to fail
    return Status::exhausted(
        "the query's process ended (" +
        (number ? "signal " + std::to_string(number) : "exit " + std::to_string(WEXITSTATUS(status))) +
        "): it needs more than its " + humanBytes(kMemoryBytes) + " of memory, or met an error of the SQL engine");
  return {code, said_};
}

}  // namespace tracesmith::server
