#include "process/stack_sampler.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/clock.hpp"
#include "process/frame_numbers.hpp"
#include "process/memory.hpp"
#include "process/merge.hpp"
#include "process/modules.hpp"
#include "process/python.hpp"
#include "process/stopped.hpp"
#include "process/thread_ids.hpp"
#include "process/unwind.hpp"
#include "process/watched_thread.hpp"

namespace tracesmith::process {
namespace {

constexpr int kAttempts = 4;
constexpr int kReadingsForRoot = 16;
constexpr int kLooksAtRoot = 2;              // after which another outermost frame is believed
constexpr int kMostFailures = 5;             // then it may have become another program
constexpr int64_t kOftenNs = 1'000'000'000;  // at most so often: what is expensive and rarely needed

constexpr size_t kListedEachLook = 1024;  // threads of Python; more of them are listed at one look of several
constexpr size_t kAskedEachLook = 256;    // threads that have not run for a while
constexpr int kQuietLooks = 10;           // after which a thread is one of them

constexpr uint64_t kTooFar = 1;  // code of an outermost frame that was not reached
constexpr const char* kMoreCallers = "(more callers)";

class Sampler : public StackSampler {
 public:
  Sampler(pid_t pid, bool native, trace::StackTable& table)
      : pid_(pid), native_(native), table_(table), life_(pid), memory_(pid), numbers_(table) {}

  Status attach() {
    Result<std::vector<Module>> mapped = modules(pid_);
    if (!mapped) return mapped.status();
    if (mapped->empty()) return Status::unsupported("process " + std::to_string(pid_) + " has no program mapped");
    TS_TRY(mayBeRead(pid_, *mapped));
    python_.reset();
    unwinder_.reset();
    watched_.clear();
    python_threads_.clear();
    numbers_.forget();
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
    const size_t turns = watched_.size() / kAskedEachLook + 1;
    ++looks_;
    for (size_t i = 0; i < watched_.size(); ++i) {
      WatchedThread& w = watched_[i];
      if (w.quiet >= kQuietLooks && (i + looks_) % turns != 0) continue;
      if (w.stays(pid_)) continue;
      w.known = false;
      if (unwinder_ && w.task)
        to_stop_.push_back(i);
      else if (w.python)
        readPython(w);
    }
    if (!to_stop_.empty()) readStopped();
    uint64_t missed = 0;
    for (const WatchedThread& w : watched_) {
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

  std::string nameOf(size_t thread) const override {
    for (const WatchedThread& w : watched_)
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
    numbers_.forgetNative();
    Result<std::unique_ptr<Unwinder>> made = Unwinder::create(pid_, modules_, {.rules = true});
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
    const bool again = !watched_.empty() && (!stops_ || now - listed_ns_ < kOftenNs);
    if (python_ && again && looks_ % (python_threads_.size() / kListedEachLook + 1) != 0) {
      memory_.expect(nullptr);
      python_->readHolders(python_threads_);
      takeHolders();
      return true;
    }
    if (python_) {
      memory_.expect(&list_pages_);
      std::optional<std::vector<PythonThread>> found = python_->threads();
      list_pages_ = memory_.takeTouched();
      if (!found) return false;
      threads = std::move(*found);
    }
    bool same = again && threads.size() == python_threads_.size();
    for (size_t i = 0; same && i < threads.size(); ++i)
      same = threads[i].state == python_threads_[i].state && threads[i].id == python_threads_[i].id &&
             threads[i].native_id == python_threads_[i].native_id;
    python_threads_ = std::move(threads);
    if (!same) listAnew(now);
    takeHolders();
    return !watched_.empty();
  }

  void takeHolders() {
    for (WatchedThread& w : watched_)
      if (w.python) w.python->holds_gil = python_threads_[w.number_in_list].holds_gil;
  }

  void listAnew(int64_t now) {
    listed_ns_ = now;
    const std::vector<Task> all = tasks(pid_);
    memory_.expect(nullptr);
    const std::vector<std::optional<size_t>> found = matchTasks(python_threads_, all, memory_);
    std::vector<WatchedThread> next;
    std::vector<bool> taken(all.size());
    for (size_t i = 0; i < found.size(); ++i) {
      WatchedThread& w = next.emplace_back();
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
    std::stable_sort(next.begin(), next.end(), [](const WatchedThread& a, const WatchedThread& b) {
      return (a.task ? a.task->tid : INT32_MAX) < (b.task ? b.task->tid : INT32_MAX);
    });
    std::unordered_map<uint64_t, size_t> before;
    for (size_t i = 0; i < watched_.size(); ++i) before[watched_[i].identity()] = i;
    for (WatchedThread& w : next) {
      const auto old = before.find(w.identity());
      if (old == before.end()) {
        w.number = ++last_number_;
        continue;
      }
      WatchedThread kept = std::move(watched_[old->second]);
      before.erase(old);
      kept.python = w.python;
      kept.number_in_list = w.number_in_list;
      w = std::move(kept);
    }
    watched_ = std::move(next);
  }

  static uint64_t rootOf(const RawStack& stack) {
    return stack.truncated ? kTooFar : stack.frames.empty() ? 0 : stack.frames.back().code;
  }

  /// Whether to believe that this is the outermost frame: until Python 3.10, a frame that is just being left may seem
  /// to have no caller.
  static bool isRoot(const WatchedThread& w, uint64_t root) {
    return w.root == root || root == kTooFar || w.on_cpu == false;
  }

  /// Of several readings the deepest has the outermost frame: one that ended too early is shorter.
  void findRoot(WatchedThread& w) {
    size_t deepest = 0;
    for (int i = 0; i < (w.on_cpu == false ? 1 : kReadingsForRoot); ++i) {
      memory_.forget();
      const RawStack stack = python_->walk(*w.python, kMostFrames);
      if (stack.damaged || stack.truncated || stack.frames.size() < deepest) continue;
      deepest = stack.frames.size();
      w.root = rootOf(stack);
    }
  }

  /// A Python frame; of recursion, one of all.
  void add(uint32_t frame) {
    if (frames_.empty() || frames_.back() != frame) frames_.push_back(frame);
  }

  void keep(WatchedThread& w) {
    std::reverse(frames_.begin(), frames_.end());
    w.stack = table_.stack(frames_);
    w.known = true;
  }

  /// Reads the frames of a running thread twice. What is not the same is left out.
  void readPython(WatchedThread& w) {
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
      numbers_.check(*python_, first);
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
    frames_.clear();
    for (size_t i = from; i < first.frames.size(); ++i) add(numbers_.of(*python_, first.frames[i]));
    if (first.truncated) frames_.push_back(table_.frame(kMoreCallers));
    keep(w);
  }

  void readStopped() {
    std::vector<Task> all;
    for (const size_t i : to_stop_) all.push_back(*watched_[i].task);
    std::vector<RawStack> raw(all.size());
    const auto read = [&](size_t k) {
      const WatchedThread& w = watched_[to_stop_[k]];
      if (!w.python) return;
      memory_.forget();
      memory_.expect(&w.pages[0]);
      raw[k] = python_->walk(*w.python, kMostFrames);
      watched_[to_stop_[k]].pages[0] = memory_.takeTouched();
    };
    const Result<std::vector<Snapshot>> taken = stopper_.snapshots(pid_, all, read);
    if (!taken) {
      if (note_.empty()) note_ = taken.status().message();
      for (const size_t i : to_stop_)
        if (watched_[i].python) readPython(watched_[i]);
      return;
    }
    memory_.forget();
    memory_.expect(nullptr);
    for (size_t k = 0; k < all.size(); ++k) {
      WatchedThread& w = watched_[to_stop_[k]];
      if (!(*taken)[k].taken) {
        if (w.python) readPython(w);
        continue;
      }
      bool complete = false;
      native_frames_.clear();
      for (const uint64_t place : unwinder_->walk((*taken)[k], complete)) {
        native_frames_.push_back(numbers_.of(*unwinder_, place));
        strange_ |= native_frames_.back().nowhere;
      }
      if (python_) numbers_.check(*python_, raw[k]);
      frames_.clear();
      inOrder(
          raw[k], native_frames_.size(), [&](size_t i) { return python_ && native_frames_[i].loop; },
          [&](size_t i) { frames_.push_back(native_frames_[i].number); },
          [&](size_t i) { add(numbers_.of(*python_, raw[k].frames[i])); });
      keep(w);
      if (w.on_cpu == false) w.place.emplace((*taken)[k]);
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
  Stopper stopper_;
  bool stops_ = false;
  bool strange_ = false;  // native code was seen that is in no module
  int failures_ = 0;      // looks in a row
  std::string version_, note_;
  std::vector<PythonThread> python_threads_;
  std::vector<WatchedThread> watched_;
  std::vector<size_t> to_stop_;
  RepeatedMemory::Parts list_pages_;
  FrameNumbers numbers_;
  std::vector<FrameNumbers::Native> native_frames_;  // of the thread that is being read, the innermost first
  std::vector<uint32_t> frames_;                     // the same, with those of Python
  int64_t listed_ns_ = 0, modules_ns_ = 0, repaired_ns_ = 0;
  uint64_t threads_missed_ = 0;
  size_t last_number_ = 0, looks_ = 0;
};

}  // namespace

Result<std::unique_ptr<StackSampler>> StackSampler::open(pid_t pid, bool native, trace::StackTable& table) {
  auto sampler = std::make_unique<Sampler>(pid, native, table);
  TS_TRY(sampler->attach());
  return std::unique_ptr<StackSampler>(std::move(sampler));
}

}  // namespace tracesmith::process
