// Work on numbered items by a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace tracesmith {

/// Calls work(item, worker) for items 0…count−1; items are taken in ascending order, worker < threads.
template <typename Work>
void parallelFor(size_t count, size_t threads, Work work) {
  threads = std::max<size_t>(1, std::min(threads, count));
  std::atomic<size_t> next{0};
  auto loop = [&](size_t worker) {
    for (size_t i = next++; i < count; i = next++) work(i, worker);
  };
  std::vector<std::thread> others;
  for (size_t w = 1; w < threads; ++w) others.emplace_back(loop, w);
  loop(0);
  for (std::thread& t : others) t.join();
}

/// Lets threads that finish out of order act in order: pass(i, f) runs f after pass(i−1, …) returned.
/// Items must be taken in ascending order by the threads, as parallelFor does.
class Turnstile {
 public:
  template <typename F>
  void pass(size_t item, F f) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return next_ == item; });
    f();
    ++next_;
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards next_, and serialises f
  std::condition_variable turn_;
  size_t next_ = 0;
};

}  // namespace tracesmith
