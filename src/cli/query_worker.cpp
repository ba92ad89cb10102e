#include "cli/query_worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/libraries.hpp"
#include "model/travel_json.hpp"
#include "query/engine.hpp"
#include "query/worker.hpp"

namespace tracesmith::cli {
namespace {

using query::WorkerOptions;

// A query of the page needs no more, and each thread takes memory of its own.
constexpr int kMostThreads = 8;
// Address space for what DuckDB's own memory limit does not count: code, stacks, the trace's index, results on their
// way.
constexpr uint64_t kMoreAddresses = 1ull << 30;
constexpr uint64_t kMoreFile = 64u << 20;  // DuckDB counts what it spills, and says it better than a failed write
constexpr rlim_t kFiles = 64;
constexpr int kNice = 10;  // a tenth of what a busy server gets of a processor, and all of an idle one

int threads() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads); }

void limit(__rlimit_resource what, uint64_t most) {
  rlimit now{};
  ::getrlimit(what, &now);
  const rlimit wanted{std::min<rlim_t>(most, now.rlim_max), std::min<rlim_t>(most, now.rlim_max)};
  ::setrlimit(what, &wanted);
}

/// From here on this process takes no more than it may, and comes last where the machine is short of something.
void confine(const WorkerOptions& o) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != o.parent) ::_exit(query::exitOf(Code::kCancelled));  // it ended before that
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    (void)!::write(fd, "1000", 4);
    ::close(fd);
  }
  ::setpriority(PRIO_PROCESS, 0, kNice);
  ::umask(077);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which reserve terabytes
  limit(RLIMIT_AS, o.memory_bytes + kMoreAddresses);
#endif
  limit(RLIMIT_CPU, static_cast<uint64_t>(o.time_ms / 1000 + 2) * static_cast<uint64_t>(threads()));
  limit(RLIMIT_FSIZE, o.spill_bytes + kMoreFile);
  limit(RLIMIT_NOFILE, kFiles);
  limit(RLIMIT_CORE, 0);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  // The end comes from the kernel, whatever the query does and whether or not the server looks.
  itimerval end{};
  end.it_value.tv_sec = o.time_ms / 1000;
  end.it_value.tv_usec = o.time_ms % 1000 * 1000 + 1;
  ::setitimer(ITIMER_REAL, &end, nullptr);
}

Status writeOut(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoStatus("write to", "standard output");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status answer(const WorkerOptions& o) {
  std::string sql;
  Result<File> in = File::openRead("/dev/stdin");
  if (!in) return in.status();
  char buffer[1 << 16];
  for (size_t got = 1; got > 0;) {
    TS_TRY(in->readNext(buffer, sizeof buffer, got));
    sql.append(buffer, got);
  }
  Result<std::unique_ptr<query::Engine>> engine = loadQueryEngine();
  if (!engine) return engine.status();
  query::EngineOptions options;
  options.memory = std::to_string(o.memory_bytes) + "B";
  options.threads = threads();
  options.spill = o.spill;
  options.spill_bytes = o.spill_bytes;
  TS_TRY((*engine)->open({o.trace}, options));

  std::string held;  // written in pieces of some size
  query::RunOptions run;
  run.format = o.format == "csv"     ? query::Format::kCsv
               : o.format == "arrow" ? query::Format::kArrow
                                     : query::Format::kRows;
  run.limit = o.max_rows;
  run.write = [&](std::string_view bytes) -> Status {
    held += bytes;
    if (held.size() < sizeof buffer) return {};
    TS_TRY(writeOut(held));
    held.clear();
    return {};
  };
  const bool json = run.format == query::Format::kRows;
  if (json) TS_TRY(run.write("{"));
  query::RunReport report;
  TS_TRY((*engine)->run(sql, run, report));
  if (json) {
    std::vector<std::string> notes = (*engine)->notes();
    for (std::string& d : (*engine)->damage()) notes.push_back(std::move(d));
    std::string tail = model::toJson(model::QueryReport{report.rows, report.truncated, report.seconds, notes});
    tail[0] = ',';  // the object began with the rows
    held += tail;
  }
  TS_TRY(writeOut(held));
  std::fprintf(stderr, "%s\n", query::WorkerReport{report.rows, report.truncated}.toText().c_str());
  std::fflush(stderr);
  (void)engine->release();  // the process ends at once: nothing is worth tidying up
  return {};
}

}  // namespace

bool isQueryWorker(int argc, char** argv) { return argc > 1 && std::strcmp(argv[1], query::kWorkerCommand) == 0; }

int runQueryWorker(int argc, char** argv) {
  WorkerOptions options;
  if (!options.parse({argv + 1, argv + argc})) return 2;
  confine(options);
  Status status;
  try {
    status = answer(options);
  } catch (const std::bad_alloc&) {
    status = Status::exhausted("the query needs more memory than it may take");
  }
  if (status.code() == Code::kExhausted)
    status = Status::exhausted(status.message() + " (limits: " + humanBytes(options.memory_bytes) + " of memory, " +
                               humanBytes(options.spill_bytes) + " of disk): ask for less data");
  if (!status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::fflush(stderr);
  }
  ::_exit(status ? 0 : query::exitOf(status.code()));
}

}  // namespace tracesmith::cli
