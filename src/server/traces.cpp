#include "server/traces.hpp"

#include <algorithm>
#include <filesystem>

#include "analysis/clock_refine.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::server {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(1500);  // of a request, before it says "not yet"
constexpr double kRefreshSeconds = 5;                        // of a session that still records
constexpr size_t kOpen = 6;
constexpr auto kEngineWait = std::chrono::seconds(10);
constexpr const char* kIndexEnding = ".tiles";

}  // namespace

OpenTrace::~OpenTrace() {
  if (analyzer_.joinable()) analyzer_.join();
  timeline_.reset();
  engine_.reset();
  std::error_code ignored;
  if (!temporary_) return;
  fs::remove(path_, ignored);
  fs::remove(path_ + kIndexEnding, ignored);
}

Status OpenTrace::withEngine(const LoadEngine& load, const std::function<Status(query::Engine&)>& use) {
  std::unique_lock lock(engine_mutex_, kEngineWait);
  if (!lock) return Status::exhausted("another query on this trace is still at work");
  if (!engine_) {
    if (!load) return Status::unsupported("this server was built without SQL");
    Result<std::unique_ptr<query::Engine>> engine = load();
    if (!engine) return engine.status();
    query::EngineOptions options;
    options.memory = "1GB";
    TS_TRY((*engine)->open({path_}, options));
    engine_ = std::move(*engine);
  }
  return use(*engine_);
}

Result<std::string> OpenTrace::analysis() {
  std::lock_guard lock(analysis_mutex_);
  if (analysis_) return *analysis_;
  if (!analyzer_.joinable())
    analyzer_ = std::thread([this] {
      analysis::AnalyzeOptions options;
      Result<analysis::Analysis> result = analysis::analyze(timeline_->reader(), options);
      Result<std::string> text =
          result ? Result<std::string>(analysis::toJson(*result, title_)) : Result<std::string>(result.status());
      std::lock_guard inner(analysis_mutex_);
      analysis_ = std::move(text);
    });
  return std::string();
}

Traces::Traces(cluster::Client* client, FindSession find, std::string file, std::string folder)
    : client_(client), find_(std::move(find)), file_(std::move(file)), folder_(std::move(folder)) {}

Traces::~Traces() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (auto& [id, entry] : entries_)
    if (entry->worker.joinable()) entry->worker.join();
}

/// What an earlier run laid out may be of yesterday.
Status Traces::prepare() {
  if (!client_) {
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(file_);
    return reader ? Status() : reader.status();
  }
  std::error_code error;
  fs::remove_all(folder_, error);
  fs::create_directories(folder_, error);
  return error ? Status::io("cannot create " + folder_ + ": " + error.message()) : Status();
}

Result<TracePtr> Traces::open(const std::string& id, double& progress) {
  std::string title;
  uint64_t bytes = 0;
  bool changes = false;
  if (client_) {
    Result<cluster::SessionInfo> session = find_(id);
    if (!session) return session.status();
    title = session->name;
    bytes = session->bytes;
    changes = true;
  } else {
    if (id != "file")
      return Status::notFound("there is no trace " + id.substr(0, 64) + ": the one here is called file");
    title = fs::path(file_).filename().string();
  }
  std::unique_lock lock(mutex_);
  std::unique_ptr<Entry>& slot = entries_[id];
  if (!slot) slot = std::make_unique<Entry>();
  Entry& entry = *slot;
  entry.used = Clock::now();
  const bool stale = entry.trace && changes && bytes != entry.trace->session_bytes_ &&
                     std::chrono::duration<double>(Clock::now() - entry.trace->made_).count() >
                         std::max(kRefreshSeconds, 10 * entry.trace->cost_s_);
  if (!entry.working && (!entry.trace || stale)) {
    if (entry.worker.joinable()) entry.worker.join();
    entry.working = true;
    entry.failure = {};
    entry.progress = 0;
    entry.worker = std::thread([this, &entry, id, title, bytes] { work(entry, id, title, bytes); });
  }
  if (!entry.trace) done_.wait_for(lock, kPatience, [&] { return !entry.working; });
  progress = entry.progress;
  if (!entry.trace && !entry.working) return entry.failure;
  TracePtr trace = entry.trace;
  forget();
  return trace;
}

/// Lays a session out, and makes the index.
void Traces::work(Entry& entry, const std::string& id, const std::string& title, uint64_t bytes) {
  const auto start = Clock::now();
  std::string path = file_;
  Status status;
  if (client_) {
    {
      std::lock_guard lock(mutex_);
      path = folder_ + "/" + id + "-" + std::to_string(next_++) + ".sbt";
    }
    status = client_->fetch(id, path, [&](uint64_t done) {
      entry.progress =
          0.5 * std::min(1.0, static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, bytes)));
    });
  }
  if (status && client_) status = analysis::storeRefinedClocks(path).status();
  auto trace = std::make_shared<OpenTrace>(id, title, path, client_ != nullptr);
  if (status) {
    Result<std::unique_ptr<Timeline>> timeline = Timeline::open(path, client_ ? "" : path + kIndexEnding);
    status = timeline.status();
    if (timeline) trace->timeline_ = std::move(*timeline);
  }
  while (status) {
    double made;
    Result<bool> ready = trace->timeline_->ready(made);
    entry.progress = client_ ? 0.5 + made / 2 : made;
    if (!ready) status = ready.status();
    if (!ready || *ready) break;
    {
      std::lock_guard lock(mutex_);
      if (stop_) status = Status::exhausted("the server stops");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  trace->session_bytes_ = bytes;
  trace->made_ = Clock::now();
  trace->cost_s_ = std::chrono::duration<double>(trace->made_ - start).count();
  TracePtr old;  // let go outside the lock
  std::lock_guard lock(mutex_);
  old = entry.trace;
  if (status) entry.trace = std::move(trace);
  entry.failure = status;
  entry.working = false;
  done_.notify_all();
}

/// Those not asked about for longest go. Under mutex_.
void Traces::forget() {
  while (true) {
    size_t open = 0;
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (!it->second->trace || it->second->working) continue;
      ++open;
      if (oldest == entries_.end() || it->second->used < oldest->second->used) oldest = it;
    }
    if (open <= kOpen) return;
    if (oldest->second->worker.joinable()) oldest->second->worker.join();
    entries_.erase(oldest);
  }
}

}  // namespace tracesmith::server
