#include "cli/query_watch.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/text.hpp"
#include "cli/commands.hpp"

namespace tracesmith::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(1);  // for a query to notice that it is interrupted
constexpr auto kNever = Clock::time_point::max();

std::atomic<int> last_signal{0}, signals{0};
std::atomic<int> wake_fd{-1};

void onSignal(int number) {
  last_signal = number;
  ++signals;
  const uint64_t one = 1;
  if (const int fd = wake_fd; fd >= 0) (void)!::write(fd, &one, sizeof one);
}

}  // namespace

int QueryWatch::signalled() { return last_signal; }

QueryWatch::QueryWatch(query::Engine& engine, const Options& options) : engine_(engine), options_(options) {
  last_signal = signals = 0;
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  wake_fd = wake_;
  struct sigaction action {};
  action.sa_handler = onSignal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  thread_ = std::thread([this] { watch(); });
}

QueryWatch::~QueryWatch() {
  done_ = true;
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
  thread_.join();
  wake_fd = -1;
  ::close(wake_);
  if (!options_.stay) return;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
}

void QueryWatch::watch() {
  const auto deadline =
      options_.seconds > 0
          ? Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds))
          : kNever;
  auto end = kNever;  // of the program
  for (;;) {
    const auto next = std::min(late_ ? kNever : deadline, end);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    pollfd wake{wake_, POLLIN, 0};
    ::poll(&wake, 1, next == kNever ? -1 : static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    uint64_t count;
    (void)!::read(wake_, &count, sizeof count);
    if (done_) return;
    if (options_.stay && signals > 1) leave(last_signal);
    const bool late = Clock::now() >= deadline;
    if (Clock::now() >= end) leave(last_signal);
    if (end != kNever || (!late && signals == 0)) continue;
    late_ = late;
    engine_.interrupt();
    if (late || !options_.stay) end = Clock::now() + kGrace;
  }
}

/// The query does not listen: what it holds goes with the process.
void QueryWatch::leave(int number) {
  if (options_.spill) options_.spill->remove();
  if (number == 0) fail(explain({}));
  ::_exit(number ? 128 + number : 1);
}

Status QueryWatch::explain(const Status& status) const {
  if (status.code() == Code::kExhausted)
    return Status::exhausted(status.message() + ": raise --memory, or ask for less data");
  if (!late_) return status;
  return Status::timeout("the query took longer than its " + humanNs(options_.seconds * 1e9) +
                         "; raise --timeout to allow more");
}

}  // namespace tracesmith::cli
