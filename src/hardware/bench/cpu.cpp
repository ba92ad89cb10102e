// CPU: multiply-adds in registers on all cores, and copies of memory larger than the caches.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "hardware/bench/bench.hpp"

namespace tracesmith::hardware {
namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Independent chains hide the latency of a multiply-add; twelve of them and two constants fit sixteen registers.
constexpr int kChains = 12;
#define TS_FMA_LOOP(Vector)                                                  \
  Vector a[kChains], m = Vector{} + 0.999999f, c = Vector{} + 1e-7f;         \
  for (int i = 0; i < kChains; ++i) a[i] = Vector{} + static_cast<float>(i); \
  for (uint64_t n = 0; n < rounds; ++n)                                      \
    for (int i = 0; i < kChains; ++i) a[i] = a[i] * m + c;                   \
  float sum = 0;                                                             \
  for (int i = 0; i < kChains; ++i) sum += a[i][0];                          \
  return sum

typedef float Wide4 __attribute__((vector_size(16)));
typedef float Wide8 __attribute__((vector_size(32)));
typedef float Wide16 __attribute__((vector_size(64)));

float plainLoop(uint64_t rounds) { TS_FMA_LOOP(Wide4); }
#ifdef __x86_64__
__attribute__((target("avx2,fma"))) float avx2Loop(uint64_t rounds) { TS_FMA_LOOP(Wide8); }
__attribute__((target("avx512f"))) float avx512Loop(uint64_t rounds) { TS_FMA_LOOP(Wide16); }
#endif

struct Kernel {
  float (*loop)(uint64_t);
  int lanes;
  const char* name;
};

Kernel widest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return {avx512Loop, 16, "AVX-512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {avx2Loop, 8, "AVX2"};
#endif
  return {plainLoop, 4, "128-bit vectors"};
}

unsigned threadCount() { return std::max(1u, std::thread::hardware_concurrency()); }

/// Work done per second by all threads together. `work` does one piece and returns its size.
template <typename Work>
double together(unsigned threads, double seconds, Work work) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
  std::vector<double> rates(threads);
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      (void)work(t);  // pages touched, clocks up
      ++ready;
      while (!go) std::this_thread::yield();
      const auto begin = Clock::now();
      double done = 0;
      while (secondsSince(begin) < seconds) done += work(t);
      rates[t] = done / secondsSince(begin);
    });
  while (ready < threads) std::this_thread::yield();
  go = true;
  for (std::thread& t : all) t.join();
  double sum = 0;
  for (double r : rates) sum += r;
  return sum;
}

}  // namespace

Figure figure(std::string name, std::string unit, std::string part, std::vector<double> results, std::string how) {
  std::sort(results.begin(), results.end());
  Figure f{std::move(name), std::move(unit), std::move(part)};
  f.how = std::move(how);
  if (results.empty()) return f;
  f.median = quantileOfSorted(results, 0.5);
  f.low = results.front();
  f.high = results.back();
  f.repetitions = static_cast<int>(results.size());
  return f;
}

void benchCpu(const BenchOptions& o, Capability& out) {
  const Kernel kernel = widest();
  constexpr uint64_t kRounds = 200'000;
  std::atomic<float> sink{0};
  std::vector<double> one, all;
  const unsigned threads = threadCount();
  auto work = [&](unsigned) {
    sink = kernel.loop(kRounds);
    return static_cast<double>(kRounds) * kChains * kernel.lanes * 2;
  };
  for (int r = 0; r < o.repetitions; ++r) {
    o.progress("CPU arithmetic");
    one.push_back(together(1, o.seconds, work) * 1e-9);
    all.push_back(together(threads, o.seconds, work) * 1e-9);
  }
  const std::string how = std::string("fp32 multiply-adds in registers, ") + kernel.name;
  out.set(figure("cpu_core_gflops", "GFLOP/s", "", one, how + ", one thread"));
  out.set(figure("cpu_gflops", "GFLOP/s", "", all, how + ", " + std::to_string(threads) + " threads"));
}

void benchMemory(const BenchOptions& o, Capability& out) {
  const unsigned threads = threadCount();
  // Together well beyond the caches, and little beside the memory of any machine with GPUs.
  const size_t each = std::max<size_t>(16u << 20, (512u << 20) / threads);
  std::vector<std::unique_ptr<char[]>> from(threads), to(threads);
  for (unsigned t = 0; t < threads; ++t) {
    from[t].reset(new char[each]);
    to[t].reset(new char[each]);
    std::memset(from[t].get(), 1, each);
    std::memset(to[t].get(), 2, each);
  }
  std::vector<double> copy;
  for (int r = 0; r < o.repetitions; ++r) {
    o.progress("memory");
    copy.push_back(together(threads, o.seconds,
                            [&](unsigned t) {
                              std::memcpy(to[t].get(), from[t].get(), each);
                              return 2.0 * static_cast<double>(each);  // read and written
                            }) *
                   1e-9);
  }
  out.set(figure(
      "memory_gbps", "GB/s", "", copy,
      "memcpy of " + humanBytes(each) + " by each of " + std::to_string(threads) + " threads; bytes read and written"));
}

}  // namespace tracesmith::hardware
