#include "hardware/sampler.hpp"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "hardware/adaptive.hpp"
#include "hardware/source.hpp"
#include "hardware/sources.hpp"

namespace tracesmith::hardware {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kWatchMs = 500;                              // how often hanging sources are looked for
constexpr int kFirstRetryMs = 1000, kLastRetryMs = 30000;  // a source that failed is opened again

}  // namespace

/// One source and its thread. Fields without a word are its thread's own.
struct Worker {
  std::unique_ptr<Source> source;
  std::string key;                        // what it watches: a GPU's UUID
  std::atomic<int64_t> busy_since_ns{0};  // in a call of the source since then; 0: not
  std::atomic<bool> finished{false};
  CollectorCost cost;                      // guarded by State::mutex
  bool in_gap = false, told_hang = false;  // guarded by State::mutex
  Gap gap;                                 // guarded by State::mutex
  uint64_t late = 0;                       // guarded by State::mutex
  std::set<std::pair<const MetricInfo*, std::string>> not_supported;
  std::array<Quiet, kRates> quiet;
};

struct Sampler::State {
  SamplerOptions options;
  SampleSink* sink;  // null after stop(); guarded by mutex
  std::unique_ptr<SourceMaker> maker;

  std::mutex mutex;  // guards what says so, and calls of the sink
  std::condition_variable wake;
  bool stopping = false, has_inventory = false;  // guarded by mutex
  int64_t start_ns = 0;
  std::atomic<int64_t> looking_since_ns{0};                                         // for hardware; 0: not
  bool told_looking = false;                                                        // that it hangs; guarded by mutex
  std::vector<std::shared_ptr<Worker>> workers;                                     // guarded by mutex
  std::vector<std::pair<std::thread, std::shared_ptr<std::atomic<bool>>>> helpers;  // the threads that look and watch
  std::vector<std::thread> threads;                                                 // guarded by mutex; one a worker
  std::map<std::string, int32_t> index_of;  // a GPU keeps its index when others come and go; looker's own

  int64_t periodNs(Rate rate) const {
    const int ms = rate == Rate::fast ? options.fast_ms : rate == Rate::slow ? options.slow_ms : options.rare_ms;
    return std::max(1, ms) * kMs;
  }
  /// Sleeps until `at_ns` of rawClock(); false when it is time to stop.
  bool sleepUntil(int64_t at_ns) {
    std::unique_lock lock(mutex);
    const int64_t now = rawClock();
    if (at_ns > now) wake.wait_for(lock, std::chrono::nanoseconds(at_ns - now), [&] { return stopping; });
    return !stopping;
  }

  void deliver(Worker& w, Batch& batch);
  void up(const Worker& w, bool is_up, int64_t now);
  void beginGap(Worker& w, int64_t from, const std::string& message, bool hang);
  void endGap(Worker& w, int64_t now);
  void tellCosts();
  void endLooking();

  static void work(std::shared_ptr<State> state, std::shared_ptr<Worker> worker);
  static void look(std::shared_ptr<State> state);
  static void watch(std::shared_ptr<State> state);
  static void addWorkers(const std::shared_ptr<State>& state, std::vector<KeyedSource> sources);
};

// Called with the mutex held.
void Sampler::State::up(const Worker& w, bool is_up, int64_t now) {
  if (!sink || w.source->device() < 0) return;
  Sample s{now, w.source->device(), &metricInfo(Metric::gpu_up), {}, is_up ? 1.0 : 0.0};
  sink->samples({&s, 1});
}

// Called with the mutex held.
void Sampler::State::beginGap(Worker& w, int64_t from, const std::string& message, bool hang) {
  if (w.in_gap) return;
  w.in_gap = true;
  w.told_hang = hang;
  const size_t colon = message.find(": ");
  w.gap = {from,
           0,
           w.source->device(),
           w.source->name(),
           message.substr(0, colon),
           colon == std::string::npos ? message : message.substr(colon + 2),
           0};
  if (sink) sink->gap(w.gap);
  up(w, false, from);
}

// Called with the mutex held.
void Sampler::State::endGap(Worker& w, int64_t now) {
  if (!w.in_gap) return;
  w.in_gap = w.told_hang = false;
  w.gap.to_ns = std::max(now, w.gap.from_ns + 1);
  for (Rate rate : {Rate::fast, Rate::slow, Rate::rare})
    if (w.source->has(rate)) w.gap.missed += static_cast<uint64_t>((w.gap.to_ns - w.gap.from_ns) / periodNs(rate));
  w.gap.missed = std::max<uint64_t>(1, w.gap.missed);
  if (sink) sink->gap(w.gap);
}

void Sampler::State::deliver(Worker& w, Batch& batch) {
  std::vector<Sample>& all = batch.samples();
  // What a device cannot do is said once.
  all.erase(
      std::remove_if(all.begin(), all.end(),
                     [&](const Sample& s) {
                       return s.value != s.value && !w.not_supported.insert({s.metric, std::string(s.part)}).second;
                     }),
      all.end());
  std::unique_lock lock(mutex);
  w.cost.samples += all.size();
  if (sink && !all.empty()) sink->samples(all);
}

void Sampler::State::work(std::shared_ptr<State> state, std::shared_ptr<Worker> worker) {
  ::prctl(PR_SET_NAME, "tracesmith-hw");
  ::prctl(PR_SET_TIMERSLACK, 2'000'000ul);  // 2 ms: the kernel may wake several of us at once
  Worker& w = *worker;
  Batch batch;
  bool open = false;
  int retry_ms = kFirstRetryMs;
  std::array<int64_t, kRates> period{}, next{};
  const int64_t begin = rawClock();
  for (size_t r = 0; r < kRates; ++r) {
    period[r] = state->periodNs(static_cast<Rate>(r));
    next[r] = w.source->has(static_cast<Rate>(r)) ? begin : INT64_MAX;
  }
  for (;;) {
    const int64_t due = *std::min_element(next.begin(), next.end());
    if (!state->sleepUntil(due)) break;
    const int64_t start = rawClock(), cpu = readClock(CLOCK_THREAD_CPUTIME_ID);
    w.busy_since_ns = start;
    Status status;
    if (!open) {
      status = w.source->open();
      open = status.ok();
    }
    bool changed = false;
    for (size_t r = 0; r < kRates && status.ok(); ++r) {
      if (next[r] > start) continue;
      batch.begin(rawClock(), w.source->device());
      status = w.source->read(static_cast<Rate>(r), batch);
      if (!status) break;
      if (state->options.adaptive) changed |= w.quiet[r].leaveOut(batch.samples(), state->periodNs(Rate::rare));
      state->deliver(w, batch);
    }
    w.busy_since_ns = 0;
    const int64_t now = rawClock();
    std::unique_lock lock(state->mutex);
    w.cost.cpu_s += static_cast<double>(readClock(CLOCK_THREAD_CPUTIME_ID) - cpu) * 1e-9;
    const double wall = static_cast<double>(now - start) * 1e-9;
    w.cost.wall_s += wall;
    w.cost.longest_s = std::max(w.cost.longest_s, wall);
    ++w.cost.readings;
    if (!status) {
      const bool was_hanging = w.told_hang;
      if (was_hanging) state->endGap(w, now);
      state->beginGap(w, was_hanging ? now : start, status.message(), false);
      open = false;
      for (int64_t& n : next)
        if (n != INT64_MAX) n = now + retry_ms * kMs;
      retry_ms = std::min(retry_ms * 2, kLastRetryMs);
      continue;
    }
    retry_ms = kFirstRetryMs;
    if (w.in_gap) state->endGap(w, now);
    if (w.source->device() >= 0 && (w.cost.readings == 1 || w.gap.to_ns == now)) state->up(w, true, now);
    for (size_t r = 0; r < kRates; ++r) {
      if (next[r] > start) continue;
      const int64_t full = state->periodNs(static_cast<Rate>(r));
      if (state->options.adaptive && static_cast<Rate>(r) == Rate::fast)
        period[r] = changed              ? full
                    : w.quiet[r].still() ? std::min(period[r] * 2, state->periodNs(Rate::slow))
                                         : period[r];
      // On a grid all sources share, so that they wake together. What was slept through is late.
      const int64_t slot = (next[r] == begin ? now : next[r]) / period[r] + 1;
      next[r] = std::max(slot, now / period[r] + 1) * period[r];
      if (next[r] / period[r] > slot && now - start < state->options.hang_ms * kMs)
        w.late += static_cast<uint64_t>(next[r] / period[r] - slot);
    }
  }
  w.finished = true;
}

void Sampler::State::addWorkers(const std::shared_ptr<State>& state, std::vector<KeyedSource> sources) {
  std::unique_lock lock(state->mutex);
  if (state->stopping) return;
  for (KeyedSource& s : sources) {
    if (std::any_of(state->workers.begin(), state->workers.end(), [&](const auto& w) { return w->key == s.key; }))
      continue;
    auto worker = std::make_shared<Worker>();
    worker->source = std::move(s.source);
    worker->key = std::move(s.key);
    worker->cost.source = worker->source->name();
    worker->cost.device = worker->source->device();
    state->workers.push_back(worker);
    state->threads.emplace_back(work, state, worker);
  }
}

void Sampler::State::look(std::shared_ptr<State> state) {
  ::prctl(PR_SET_NAME, "tracesmith-find");
  if (state->options.host) addWorkers(state, state->maker->hostSources());
  for (bool first = true;; first = false) {
    if (first || state->maker->changed()) {
      state->looking_since_ns = rawClock();
      Inventory inventory = state->maker->look();
      keepIndexes(inventory, state->index_of);
      std::vector<KeyedSource> sources;
      if (state->options.gpus) sources = state->maker->gpuSources(inventory);
      {
        std::unique_lock lock(state->mutex);
        state->endLooking();
        if (state->sink) state->sink->inventory(inventory);
        state->has_inventory = true;
        state->wake.notify_all();
      }
      addWorkers(state, std::move(sources));
    }
    if (!state->sleepUntil(rawClock() + state->options.look_again_ms * kMs)) return;
  }
}

// Called with the mutex held.
void Sampler::State::endLooking() {
  const int64_t since = looking_since_ns.exchange(0);
  if (told_looking && sink)
    sink->gap({since, rawClock(), -1, "discovery", "hangs", "searching for hardware took long", 1});
  told_looking = false;
}

// Called with the mutex held.
void Sampler::State::tellCosts() {
  if (!sink || workers.empty()) return;
  const int64_t now = rawClock();
  std::vector<CollectorCost> costs;
  std::vector<Sample> samples;
  for (const auto& w : workers) {
    w->cost.elapsed_s = static_cast<double>(now - start_ns) * 1e-9;
    costs.push_back(w->cost);
  }
  for (const CollectorCost& c : costs) {
    samples.push_back({now, -1, &metricInfo(Metric::collector_cpu_seconds), c.source, c.cpu_s});
    samples.push_back({now, -1, &metricInfo(Metric::collector_wall_seconds), c.source, c.wall_s});
    samples.push_back({now, -1, &metricInfo(Metric::collector_samples), c.source, static_cast<double>(c.samples)});
  }
  if (!samples.empty()) sink->samples(samples);
  sink->costs(costs);
}

void Sampler::State::watch(std::shared_ptr<State> state) {
  ::prctl(PR_SET_NAME, "tracesmith-watch");
  int64_t costs_at = rawClock() + state->periodNs(Rate::rare);
  while (state->sleepUntil(rawClock() + kWatchMs * kMs)) {
    std::unique_lock lock(state->mutex);
    const int64_t now = rawClock();
    for (const auto& w : state->workers) {
      const int64_t since = w->busy_since_ns;
      if (since != 0 && now - since > state->options.hang_ms * kMs)
        state->beginGap(*w, since,
                        "hangs: " + w->source->name() + " has been waiting for a driver or file call for " +
                            std::to_string((now - since) / kMs) + " ms",
                        true);
    }
    const int64_t looking = state->looking_since_ns;
    if (looking != 0 && now - looking > state->options.hang_ms * kMs && !state->told_looking) {
      state->told_looking = true;
      if (state->sink)
        state->sink->gap({looking, 0, -1, "discovery", "hangs", "a driver does not report its hardware", 0});
    }
    if (now < costs_at) continue;
    costs_at = now + state->periodNs(Rate::rare);
    state->tellCosts();
  }
}

Sampler::Sampler(SamplerOptions options, SampleSink& sink) : state_(std::make_shared<State>()) {
  state_->maker = SourceMaker::create(options);
  state_->options = std::move(options);
  state_->sink = &sink;
}

Sampler::~Sampler() { stop(); }

void Sampler::start() {
  state_->start_ns = rawClock();
  for (auto* body : {&State::look, &State::watch}) {
    auto finished = std::make_shared<std::atomic<bool>>(false);
    state_->helpers.emplace_back(
        [state = state_, body, finished] {
          body(state);
          *finished = true;
        },
        finished);
  }
}

bool Sampler::waitForInventory(int timeout_ms) {
  std::unique_lock lock(state_->mutex);
  return state_->wake.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return state_->has_inventory; });
}

void Sampler::stop() {
  std::vector<std::shared_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  {
    std::unique_lock lock(state_->mutex);
    if (state_->stopping) return;
    state_->stopping = true;
    state_->wake.notify_all();
    workers = state_->workers;
    threads.swap(state_->threads);
  }
  // A thread that hangs in a driver cannot be ended: it is left alone with its share of the state.
  const int64_t give_up = rawClock() + 1000 * kMs;
  auto leave = [&](std::thread& t, const std::atomic<bool>& finished) {
    while (!finished && rawClock() < give_up) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    finished ? t.join() : t.detach();
  };
  for (size_t i = 0; i < threads.size(); ++i) leave(threads[i], workers[i]->finished);
  for (auto& [thread, finished] : state_->helpers) leave(thread, *finished);
  state_->helpers.clear();
  std::unique_lock lock(state_->mutex);
  const int64_t now = rawClock();
  for (const auto& w : state_->workers) {
    state_->endGap(*w, now);
    if (w->late > 0 && state_->sink)
      state_->sink->gap(
          {state_->start_ns, now, w->source->device(), w->source->name(), "late readings",
           w->source->name() +
               " was read later than requested: the machine was busy, or reading took longer than the interval",
           w->late});
  }
  state_->endLooking();
  state_->tellCosts();
  state_->sink = nullptr;
}

}  // namespace tracesmith::hardware
