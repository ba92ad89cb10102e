#include "process/stack_sampler.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/clock.hpp"
#include "process/memory.hpp"
#include "process/merge.hpp"
#include "process/modules.hpp"
#include "process/python.hpp"
#include "process/stopped.hpp"
#include "process/task_activity.hpp"
#include "process/thread_ids.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {
namespace {

constexpr int kAttempts = 4;
constexpr int kReadingsForRoot = 16;
constexpr int kLooksAtRoot = 2;                // after which another outermost frame is believed
constexpr int kMostFailures = 5;               // then it may have become another program
constexpr int64_t kOftenNs = 1'000'000'000;    // at most so often: what is expensive and rarely needed
constexpr size_t kMostKnownOffsets = 1 << 20;  // frames whose numbers are kept

constexpr uint64_t kTooFar = 1;  // code of an outermost frame that was not reached
constexpr const char* kMoreCallers = "(more callers)";

/// A thread that is looked at.
struct Watched {
  std::optional<PythonThread> python;
  std::optional<Task> task;
  size_t number_in_list = 0;               // of Python's threads
  uint64_t number = 0;                     // ThreadSample::thread
  std::unique_ptr<TaskActivity> activity;  // of the task
  std::optional<bool> on_cpu;
  bool known = false;  // `stack` is where it was at the last look
  uint32_t stack = 0;
  RepeatedMemory::Parts pages[2];  // of the two readings
  std::optional<uint64_t> root;    // code of its outermost frame; 0: it had none
  int other_roots = 0;             // looks in a row that found another one

  uint64_t identity() const {
    return task ? static_cast<uint64_t>(task->tid) : python ? python->state ^ (python->id << 1) : 0;
  }
};

class Sampler : public StackSampler {
 public:
  Sampler(pid_t pid, bool native, trace::StackTable& table)
      : pid_(pid), native_(native), table_(table), life_(pid), memory_(pid) {}

  Status attach() {
    Result<std::vector<Module>> mapped = modules(pid_);
    if (!mapped) return mapped.status();
    if (mapped->empty()) return Status::unsupported("process " + std::to_string(pid_) + " has no program mapped");
    TS_TRY(mayBeRead(pid_, *mapped));
    python_.reset();
    unwinder_.reset();
    watched_.clear();
    python_threads_.clear();
    codes_.clear();
    failures_ = 0;
    stops_ = false;
    modules_ = std::move(*mapped);
    memory_.expect(nullptr);
    memory_.forget();
    Result<std::optional<Interpreter>> found = findInterpreter(pid_, modules_, memory_);
    if (!found && !native_) return found.status();
    if (!found) note_ = found.status().message();
    if (found && *found) {
      version_ = text((*found)->layout.version);
      python_.emplace(**found, memory_);
    }
    stops_ = native_ || !python_;
    return stops_ ? makeUnwinder() : Status();
  }

  Outcome look(std::vector<ThreadSample>& samples) override {
    samples.clear();
    const int64_t now = rawClock();
    if (failures_ >= kMostFailures && !repair(now)) return life_.ended() ? Outcome::ended : Outcome::missed;
    if ((!python_ || strange_) && now - modules_ns_ >= kOftenNs) lookForModules(now);
    if (!list(now)) {
      ++failures_;
      return life_.ended() ? Outcome::ended : Outcome::missed;
    }
    failures_ = 0;
    to_stop_.clear();
    for (size_t i = 0; i < watched_.size(); ++i) {
      Watched& w = watched_[i];
      if (stays(w)) continue;
      w.known = false;
      if (unwinder_ && w.task)
        to_stop_.push_back(i);
      else if (w.python)
        readPython(w);
    }
    if (!to_stop_.empty()) readStopped();
    uint64_t missed = 0;
    for (const Watched& w : watched_) {
      if (!w.known) {
        ++missed;
        continue;
      }
      ThreadSample& s = samples.emplace_back();
      if (w.task) s.tid = w.task->tid;
      s.thread = w.number;
      s.on_cpu = w.on_cpu;
      if (w.python) s.holds_gil = w.python->holds_gil;
      s.stack = w.stack;
    }
    if (samples.empty()) return life_.ended() ? Outcome::ended : Outcome::missed;
    threads_missed_ += missed;
    return Outcome::looked;
  }

  std::string nameOf(uint64_t thread) const override {
    for (const Watched& w : watched_)
      if (w.number == thread && w.task) return w.task->name;
    return "";
  }
  const std::string& pythonVersion() const override { return version_; }
  uint64_t threadsMissed() const override { return threads_missed_; }
  const std::string& note() const override { return note_; }

 private:
  /// After the process has become another program, or was met while its interpreter started.
  bool repair(int64_t now) {
    if (now - repaired_ns_ < kOftenNs || life_.ended()) return false;
    repaired_ns_ = now;
    return attach().ok();
  }

  /// Libraries may have been loaded since; a program that has just been started may turn out to be one of Python.
  void lookForModules(int64_t now) {
    modules_ns_ = now;
    strange_ = false;
    Result<std::vector<Module>> mapped = modules(pid_);
    const auto same = [](const Module& a, const Module& b) { return a.path == b.path && a.begin == b.begin; };
    if (!mapped || std::equal(mapped->begin(), mapped->end(), modules_.begin(), modules_.end(), same)) return;
    if (!python_) {
      (void)attach();
      return;
    }
    unwinder_.reset();  // it refers to them
    modules_ = std::move(*mapped);
    (void)makeUnwinder();
  }

  Status makeUnwinder() {
    unwinder_.reset();  // before the modules that it refers to
    Result<std::unique_ptr<Unwinder>> made = Unwinder::create(pid_, modules_);
    if (made) {
      unwinder_ = std::move(*made);
      return {};
    }
    if (!python_) return made.status();
    stops_ = false;
    note_ = made.status().message();
    return {};
  }

  /// Threads of Python as they are now, and all threads where native frames are read. False: they cannot be read.
  bool list(int64_t now) {
    std::vector<PythonThread> threads;
    if (python_) {
      memory_.expect(&list_pages_);
      std::optional<std::vector<PythonThread>> found = python_->threads();
      list_pages_ = memory_.takeTouched();
      if (!found) return false;
      threads = std::move(*found);
    }
    bool same =
        !watched_.empty() && threads.size() == python_threads_.size() && (!stops_ || now - listed_ns_ < kOftenNs);
    for (size_t i = 0; same && i < threads.size(); ++i)
      same = threads[i].state == python_threads_[i].state && threads[i].id == python_threads_[i].id &&
             threads[i].native_id == python_threads_[i].native_id;
    python_threads_ = std::move(threads);
    if (!same) listAnew(now);
    for (Watched& w : watched_)
      if (w.python) w.python->holds_gil = python_threads_[w.number_in_list].holds_gil;
    return !watched_.empty();
  }

  void listAnew(int64_t now) {
    listed_ns_ = now;
    const std::vector<Task> all = tasks(pid_);
    memory_.expect(nullptr);
    const std::vector<std::optional<size_t>> found = matchTasks(python_threads_, all, memory_);
    std::vector<Watched> next;
    std::vector<bool> taken(all.size());
    for (size_t i = 0; i < found.size(); ++i) {
      Watched& w = next.emplace_back();
      w.python = python_threads_[i];
      w.number_in_list = i;
      if (found[i]) {
        w.task = all[*found[i]];
        taken[*found[i]] = true;
      }
    }
    for (size_t i = 0; stops_ && i < all.size(); ++i)
      if (!taken[i]) next.emplace_back().task = all[i];
    // The process's first thread comes first.
    std::stable_sort(next.begin(), next.end(), [](const Watched& a, const Watched& b) {
      return (a.task ? a.task->tid : INT32_MAX) < (b.task ? b.task->tid : INT32_MAX);
    });
    std::unordered_map<uint64_t, size_t> before;
    for (size_t i = 0; i < watched_.size(); ++i) before[watched_[i].identity()] = i;
    for (Watched& w : next) {
      const auto old = before.find(w.identity());
      if (old == before.end()) {
        w.number = ++last_number_;
        continue;
      }
      Watched kept = std::move(watched_[old->second]);
      before.erase(old);
      kept.python = w.python;
      kept.number_in_list = w.number_in_list;
      w = std::move(kept);
    }
    watched_ = std::move(next);
  }

  /// Whether the thread has not run since the last look; otherwise its state is read.
  bool stays(Watched& w) {
    if (!w.task) return false;
    if (!w.activity) w.activity = std::make_unique<TaskActivity>(pid_, w.task->tid);
    const bool ran = w.activity->hasRun();
    if (!ran && w.known && w.on_cpu == false) return true;
    w.on_cpu = w.activity->isOnCpu();
    return false;
  }

  /// Forgets frames whose code is no longer what it was.
  void checkCodes(const RawStack& stack) {
    for (const RawFrame& f : stack.frames) {
      const auto at = codes_.find(f.code);
      if (at == codes_.end() || python_->stillThere(f)) continue;
      known_offsets_ -= at->second.size();
      codes_.erase(at);
    }
  }

  uint32_t numberOf(const RawFrame& raw) {
    auto& offsets = codes_[raw.code];
    const auto [at, added] = offsets.try_emplace(raw.offset);
    if (!added) return at->second;
    ++known_offsets_;
    const std::optional<PythonFrame> frame = python_->resolve(raw);
    return at->second = table_.frame(frame ? trace::pythonFrame(frame->function, frame->file, frame->line) : "?");
  }

  static uint64_t rootOf(const RawStack& stack) {
    return stack.truncated ? kTooFar : stack.frames.empty() ? 0 : stack.frames.back().code;
  }

  /// Whether to believe that this is the outermost frame: until Python 3.10, a frame that is just being left may seem
  /// to have no caller.
  static bool isRoot(const Watched& w, uint64_t root) { return w.root == root || root == kTooFar || w.on_cpu == false; }

  /// Of several readings the deepest has the outermost frame: one that ended too early is shorter.
  void findRoot(Watched& w) {
    size_t deepest = 0;
    for (int i = 0; i < (w.on_cpu == false ? 1 : kReadingsForRoot); ++i) {
      memory_.forget();
      const RawStack stack = python_->walk(*w.python, kMostFrames);
      if (stack.damaged || stack.truncated || stack.frames.size() < deepest) continue;
      deepest = stack.frames.size();
      w.root = rootOf(stack);
    }
  }

  /// Reads the frames of a running thread twice. What is not the same is left out.
  void readPython(Watched& w) {
    RawStack first, again;
    bool sure = false;
    bool any = false;
    uint64_t root = 0;
    if (!w.root) findRoot(w);
    for (int attempt = 0; attempt < kAttempts && !sure; ++attempt) {
      memory_.forget();
      memory_.expect(&w.pages[0]);
      first = python_->walk(*w.python, kMostFrames);
      w.pages[0] = memory_.takeTouched();
      checkCodes(first);
      memory_.forget();
      memory_.expect(&w.pages[1]);
      again = python_->walkAgain(*w.python, kMostFrames);
      w.pages[1] = memory_.takeTouched();
      if (!alike(first, again)) continue;
      any = true;
      root = rootOf(first);
      sure = isRoot(w, root);
    }
    size_t from = 0;
    if (sure) {
      if (root != kTooFar) w.root = root;
      w.other_roots = 0;
    } else {
      if (any && ++w.other_roots >= kLooksAtRoot) w.root.reset();  // it is looked for again
      if (first.damaged || again.damaged || !w.root || w.root != rootOf(first) || w.root != rootOf(again) ||
          w.root == 0u)
        return;
      const size_t common = commonCallers(first, again);
      if (common == 0) return;
      from = first.frames.size() - common;
    }
    if (codes_.size() > kMostKnownOffsets || known_offsets_ > kMostKnownOffsets) {
      codes_.clear();
      known_offsets_ = 0;
    }
    numbers_.clear();
    if (first.truncated) numbers_.push_back(table_.frame(kMoreCallers));
    for (size_t i = first.frames.size(); i-- > from;)
      if (const uint32_t f = numberOf(first.frames[i]); numbers_.empty() || numbers_.back() != f) numbers_.push_back(f);
    w.stack = table_.stack(numbers_);
    w.known = true;
  }

  void readStopped() {
    std::vector<Task> all;
    for (const size_t i : to_stop_) all.push_back(*watched_[i].task);
    std::vector<RawStack> raw(all.size());
    const auto read = [&](size_t k) {
      const Watched& w = watched_[to_stop_[k]];
      if (!w.python) return;
      memory_.forget();
      memory_.expect(&w.pages[0]);
      raw[k] = python_->walk(*w.python, kMostFrames);
      watched_[to_stop_[k]].pages[0] = memory_.takeTouched();
    };
    const Result<std::vector<Snapshot>> taken = snapshots(pid_, all, read);
    if (!taken) {
      if (note_.empty()) note_ = taken.status().message();
      for (const size_t i : to_stop_)
        if (watched_[i].python) readPython(watched_[i]);
      return;
    }
    memory_.forget();
    memory_.expect(nullptr);
    for (size_t k = 0; k < all.size(); ++k) {
      Watched& w = watched_[to_stop_[k]];
      if (!(*taken)[k].taken) {
        if (w.python) readPython(w);
        continue;
      }
      bool complete = false;
      const std::vector<NativeFrame> native = unwinder_->unwind((*taken)[k], complete);
      ThreadStack merged;
      merge(python_ ? &*python_ : nullptr, raw[k], native, merged);
      numbers_.clear();
      for (size_t i = merged.frames.size(); i-- > 0;) {
        const Frame& f = merged.frames[i];
        strange_ |= !f.python && f.file.empty();
        numbers_.push_back(table_.frame(f.python ? trace::pythonFrame(f.function, f.file, f.line)
                                                 : trace::nativeFrame(f.function, f.file, f.address)));
      }
      w.stack = table_.stack(numbers_);
      w.known = true;
    }
  }

  const pid_t pid_;
  const bool native_;
  trace::StackTable& table_;
  const Life life_;
  RepeatedMemory memory_;
  std::vector<Module> modules_;
  std::optional<PythonStacks> python_;
  std::unique_ptr<Unwinder> unwinder_;
  bool stops_ = false;
  bool strange_ = false;  // native code was seen that is in no module
  int failures_ = 0;      // looks in a row
  std::string version_, note_;
  std::vector<PythonThread> python_threads_;
  std::vector<Watched> watched_;
  std::vector<size_t> to_stop_;
  RepeatedMemory::Parts list_pages_;
  std::unordered_map<uint64_t, std::unordered_map<int64_t, uint32_t>> codes_;  // code → offset → frame
  size_t known_offsets_ = 0;
  std::vector<uint32_t> numbers_;
  int64_t listed_ns_ = 0, modules_ns_ = 0, repaired_ns_ = 0;
  uint64_t last_number_ = 0, threads_missed_ = 0;
};

}  // namespace

Result<std::unique_ptr<StackSampler>> StackSampler::open(pid_t pid, bool native, trace::StackTable& table) {
  auto sampler = std::make_unique<Sampler>(pid, native, table);
  TS_TRY(sampler->attach());
  return std::unique_ptr<StackSampler>(std::move(sampler));
}

}  // namespace tracesmith::process
