#include "server/sources/traces.hpp"

#include <algorithm>
#include <filesystem>

#include "analysis/clocks/clock_refine.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::server {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(1500);  // of a request, before it says "not yet"
constexpr double kRefreshSeconds = 5;                        // of a session that still records
constexpr size_t kOpen = 6;
constexpr int kAtOnce = 2;  // sessions being laid out; each takes disk and processors that ingestion needs too
constexpr const char* kIndexEnding = ".tiles";

}  // namespace

OpenTrace::~OpenTrace() {
  if (analyzer_.joinable()) analyzer_.join();
  metrics_.reset();
  timeline_.reset();
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  fs::remove(path_, ignored);
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

Traces::Traces(cluster::SessionTraces* master, FindSession find, std::vector<File> files, std::string folder)
    : master_(master), find_(std::move(find)), files_(std::move(files)), folder_(std::move(folder)) {}

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
  if (!master_) {
    for (const File& f : files_)
      if (Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(f.path); !reader) return reader.status();
    return {};
  }
  std::error_code error;
  fs::remove_all(folder_, error);
  return makePrivateFolder(folder_);
}

std::vector<std::string> Traces::files() const {
  std::vector<std::string> ids;
  for (size_t i = 0; i < files_.size(); ++i) ids.emplace_back(i == 0 ? "file" : "other");
  return ids;
}

Result<TracePtr> Traces::open(const std::string& id, double& progress) {
  Job job{id, "", 0, false};
  bool changes = false;
  if (master_) {
    Result<cluster::SessionInfo> session = find_(id);
    if (!session) return session.status();
    job.title = session->name;
    job.bytes = session->bytes;
    job.records = session->end_ns == 0;
    changes = true;
  } else {
    const std::vector<std::string> known = files();
    const auto at = std::find(known.begin(), known.end(), id);
    if (at == known.end())
      return Status::notFound("there is no trace " + id.substr(0, 64) + ": the trace of this server is called 'file'");
    job.file = files_[static_cast<size_t>(at - known.begin())];
    job.title = job.file.title;
  }
  std::unique_lock lock(mutex_);
  std::unique_ptr<Entry>& slot = entries_[id];
  if (!slot) slot = std::make_unique<Entry>();
  Entry& entry = *slot;
  entry.used = Clock::now();
  auto stale = [&] {
    if (!changes || (job.bytes == entry.trace->session_bytes_ && job.records == (entry.copy != nullptr))) return false;
    const double age = std::chrono::duration<double>(Clock::now() - entry.trace->made_).count();
    return age > std::max(kRefreshSeconds, 10 * entry.trace->cost_s_);
  };
  const bool wanted = !entry.working && (!entry.trace || stale());
  const bool room =
      std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e.second->working; }) < kAtOnce;
  if (wanted && !room && !entry.trace) {
    progress = 0;  // whoever asks comes again
    return TracePtr();
  }
  if (wanted && room) {
    if (entry.worker.joinable()) entry.worker.join();
    entry.working = true;
    entry.failure = {};
    entry.progress = 0;
    entry.worker = std::thread([this, &entry, job] { work(entry, job); });
  }
  if (!entry.trace) done_.wait_for(lock, kPatience, [&] { return !entry.working; });
  progress = entry.progress;
  if (!entry.trace && !entry.working) return entry.failure;
  TracePtr trace = entry.trace;
  forget();
  return trace;
}

std::string Traces::newPath(const std::string& id) {
  std::lock_guard lock(mutex_);
  return folder_ + "/" + id + "-" + std::to_string(next_++) + ".sbt";
}

/// A session that records: what has come since the last time is added to its copy and to the index. Its clocks are as
/// the agents know them; collectives make them better when it has ended.
Result<TracePtr> Traces::grow(Entry& entry, const Job& job) {
  std::shared_ptr<OpenTrace> before = entry.copy ? entry.trace : nullptr;
  if (!entry.copy) {
    entry.copy_file = std::make_shared<TemporaryFile>(newPath(job.id));
    entry.copy = master_->copy(job.id, entry.copy_file->path());
    if (!entry.copy) return layOut(entry, job);
  }
  const double all = static_cast<double>(std::max<uint64_t>(1, job.bytes));
  Status status = entry.copy->more([&](uint64_t done) {
    if (!before) entry.progress = 0.5 * std::min(1.0, static_cast<double>(done) / all);
  });
  auto trace = std::make_shared<OpenTrace>(job.id, job.title, entry.copy_file->path(), entry.copy_file);
  if (status) {
    Result<std::unique_ptr<Timeline>> timeline =
        Timeline::openGrowing(entry.copy_file->path(), before ? &before->timeline() : nullptr);
    status = timeline.status();
    if (timeline) trace->timeline_ = std::move(*timeline);
  }
  if (status) return trace;
  entry.copy.reset();  // from the beginning, the next time
  entry.copy_file.reset();
  return status;
}

/// The file itself, or a session that has ended as one.
Result<TracePtr> Traces::layOut(Entry& entry, const Job& job) {
  entry.copy.reset();
  entry.copy_file.reset();
  std::string path = job.file.path;
  std::shared_ptr<TemporaryFile> temporary;
  if (master_) {
    path = newPath(job.id);
    temporary = std::make_shared<TemporaryFile>(path);
    TS_TRY(master_->fetch(job.id, path, [&](uint64_t done) {
      entry.progress =
          0.5 * std::min(1.0, static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(1, job.bytes)));
    }));
    if (Result<analysis::Refinement> refined = analysis::storeRefinedClocks(path); !refined) return refined.status();
  }
  auto trace = std::make_shared<OpenTrace>(job.id, job.title, path, temporary);
  Result<std::unique_ptr<Timeline>> timeline = Timeline::open(path, master_ ? "" : path + kIndexEnding);
  if (!timeline) return timeline.status();
  trace->timeline_ = std::move(*timeline);
  return trace;
}

/// Lays a session out, and makes the index.
void Traces::work(Entry& entry, const Job& job) {
  const auto start = Clock::now();
  Result<TracePtr> made = master_ && job.records ? grow(entry, job) : layOut(entry, job);
  Status status = made.status();
  while (status) {
    double done;
    Result<bool> ready = (*made)->timeline_->ready(done);
    entry.progress = master_ ? 0.5 + done / 2 : done;
    if (!ready) status = ready.status();
    if (!ready || *ready) break;
    {
      std::lock_guard lock(mutex_);
      if (stop_) status = Status::unavailable("the server is stopping");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  TracePtr old;  // let go outside the lock
  std::lock_guard lock(mutex_);
  old = entry.trace;
  if (status) {
    OpenTrace& trace = **made;
    trace.metrics_ = std::make_unique<TraceMetrics>(*trace.timeline_);
    trace.session_bytes_ = job.bytes;
    trace.made_ = Clock::now();
    trace.cost_s_ = std::chrono::duration<double>(trace.made_ - start).count();
    entry.trace = std::move(*made);
  } else {
    entry.copy.reset();
    entry.copy_file.reset();
  }
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
