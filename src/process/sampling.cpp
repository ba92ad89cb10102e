#include "process/sampling.hpp"

#include <algorithm>
#include <random>

#include "base/clock.hpp"
#include "hardware/process.hpp"

namespace tracesmith::process {
namespace {

constexpr double kJitter = 0.2;  // of the time between two looks: a program that beats in time must not hide

void sleepFor(int64_t ns) {
  if (ns <= 0) return;
  const timespec t{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  ::nanosleep(&t, nullptr);  // a signal ends it early, which is what Ctrl-C needs
}

}  // namespace

Status Sampling::add(pid_t pid, std::optional<int64_t> rank, const std::string& node) {
  trace::StackCounts::Process& process = counts_.processes.emplace_back();
  const hardware::ProcessInfo info = hardware::processInfo("", pid);
  process.node = node;
  process.pid = pid;
  process.command = info.command;
  process.rank = rank;
  if (!rank && info.rank != hardware::kUnknown) process.rank = info.rank;
  SampledProcess& sampled = processes_.emplace_back();
  samplers_.emplace_back();
  slots_.emplace_back();
  Result<std::unique_ptr<StackSampler>> opened = StackSampler::open(pid, options_.native, counts_.table);
  if (opened && options_.python_only && (*opened)->pythonVersion().empty())
    opened = Status::unsupported("process " + std::to_string(pid) + " is not a Python process");
  if (!opened && options_.python_only && opened.status().code() == Code::kUnsupported) {
    counts_.processes.pop_back();
    processes_.pop_back();
    samplers_.pop_back();
    slots_.pop_back();
    return opened.status();
  }
  if (!opened) {
    sampled.problem = opened.status().message();
    return opened.status();
  }
  samplers_.back() = std::move(*opened);
  sampled.python_version = samplers_.back()->pythonVersion();
  return {};
}

size_t Sampling::open() const {
  return static_cast<size_t>(std::count_if(samplers_.begin(), samplers_.end(), [](const auto& s) { return !!s; }));
}

Sampling::Slot& Sampling::slotOf(size_t process, const ThreadSample& sample) {
  std::vector<Slot>& slots = slots_[process];
  if (sample.thread >= slots.size()) slots.resize(sample.thread + 1);
  Slot& slot = slots[sample.thread];
  if (!slot.thread) {
    slot.thread = static_cast<uint32_t>(counts_.threads.size());
    counts_.threads.push_back({process, sample.tid, samplers_[process]->nameOf(sample.thread)});
  }
  if (!slot.count || slot.stack != sample.stack) {
    slot.stack = sample.stack;
    slot.count = &counts_.counts[trace::StackCounts::key(*slot.thread, sample.stack)];
  }
  return slot;
}

Status Sampling::look(size_t process, int64_t ts, SampleSink* sink) {
  using trace::StackCounts;
  std::unique_ptr<StackSampler>& sampler = samplers_[process];
  const StackSampler::Outcome outcome = sampler->look(samples_);
  SampledProcess& told = processes_[process];
  told.threads_missed = sampler->threadsMissed();
  told.note = sampler->note();
  told.python_version = sampler->pythonVersion();
  if (outcome == StackSampler::Outcome::ended) {
    told.ended = true;
    sampler.reset();
    return {};
  }
  StackCounts::Process& p = counts_.processes[process];
  ++(outcome == StackSampler::Outcome::looked ? p.looks : p.missed);
  for (const ThreadSample& s : samples_) {
    const Slot& slot = slotOf(process, s);
    const StackCounts::State state = !s.on_cpu   ? StackCounts::unknown
                                     : *s.on_cpu ? StackCounts::on_cpu
                                                 : StackCounts::waiting;
    ++slot.count->samples[state];
    if (sink) TS_TRY(sink->sample(ts, *slot.thread, s));
  }
  return {};
}

Status Sampling::run(const std::atomic<bool>& stop, SampleSink* sink, const std::function<void(double)>& progress) {
  const auto period = static_cast<int64_t>(1e9 / options_.rate);
  const auto span = static_cast<int64_t>(options_.seconds * 1e9);
  std::minstd_rand random;
  std::uniform_real_distribution<double> jitter(-kJitter, kJitter);
  // Threads are stopped by threads of their own; somebody who samples beside other work stops none.
  const clockid_t cpu_clock = options_.python_only ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
  const int64_t cpu_before = readClock(cpu_clock);
  start_ns_ = rawClock();
  counts_.rate = options_.rate;
  int64_t due = start_ns_, now = start_ns_;
  for (bool first = true; (options_.waits || open() > 0) && (first || (!stop && now - start_ns_ < span));
       first = false) {
    const int64_t cpu = readClock(cpu_clock);
    for (size_t i = 0; i < samplers_.size() && (first || !stop); ++i)
      if (samplers_[i]) TS_TRY(look(i, rawClock(), sink));
    const int64_t done = rawClock();
    if (sink) TS_TRY(sink->lookEnds(done));
    // What could not keep up rests as long as it worked: at most half of a core, however many threads there are.
    due += period;
    const int64_t worked = readClock(cpu_clock) - cpu, earliest = done + (worked > period / 2 ? worked : 0);
    if (due < earliest) {
      const int64_t skipped = (earliest - due + period - 1) / period;
      for (size_t i = 0; i < samplers_.size(); ++i)
        if (samplers_[i]) counts_.processes[i].missed += static_cast<uint64_t>(skipped);
      due += skipped * period;
    }
    progress(std::min(1.0, static_cast<double>(done - start_ns_) / static_cast<double>(span)));
    const int64_t next =
        std::min(due + static_cast<int64_t>(jitter(random) * static_cast<double>(period)), start_ns_ + span);
    while (!stop && (now = rawClock()) < next) sleepFor(std::min<int64_t>(next - now, 100'000'000));
  }
  counts_.seconds = static_cast<double>(rawClock() - start_ns_) / 1e9;
  cpu_seconds_ = static_cast<double>(readClock(cpu_clock) - cpu_before) / 1e9;
  return {};
}

}  // namespace tracesmith::process
