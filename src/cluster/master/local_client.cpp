#include "cluster/master/local_client.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "cluster/master/live_watch.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {
namespace {

class LocalCopy final : public SessionCopy {
 public:
  LocalCopy(Master& master, std::string id, std::string path)
      : master_(master), id_(std::move(id)), path_(std::move(path)) {}

  Status more(const std::function<void(uint64_t)>& progress) override {
    if (!file_) {
      Result<File> made = File::create(path_);
      if (!made) return made.status();
      file_.emplace(std::move(*made));
    }
    uint64_t bytes = 0;
    return master_.fetchMore(id_, growing_, [&](std::string_view data, uint64_t) -> Status {
      TS_TRY(file_->write(data));
      bytes += data.size();
      if (progress) progress(bytes);
      return {};
    });
  }

 private:
  Master& master_;
  const std::string id_, path_;
  GrowingSession growing_;
  std::optional<File> file_;
};

class LocalClient final : public Client {
 public:
  LocalClient(Master& master, Invite invite) : master_(master), invite_(std::move(invite)) {}

  Result<ClusterStatus> status() override { return master_.status(); }
  Result<std::string> addNode(const std::string& address) override { return invite_(address); }
  Status removeNode(const std::string& node) override { return master_.removeNode(node); }
  Result<SessionInfo> start(const StartOptions& options) override { return master_.start(options); }
  Result<std::vector<SessionInfo>> stop(const std::string& name) override { return master_.stop(name); }
  Result<SessionInfo> resume(const std::string& name_or_id) override { return master_.resume(name_or_id); }
  Result<std::vector<SessionInfo>> sessions() override { return master_.sessions(); }
  Result<DeletedSession> deleteSession(const std::string& name_or_id) override {
    return master_.deleteSession(name_or_id);
  }

  Result<MetricSet> metrics() override { return master_.metrics(); }
  Result<LiveStatus> live() override { return master_.watch().live(); }
  Result<HangStatus> hang() override { return master_.watch().hang(); }
  Result<ClusterProcesses> processes(const ProcessQuery& query) override { return master_.processes(query); }

  Result<BalanceStatus> plans() override { return master_.balance().status(); }
  Status undoPlan(const std::string& job) override { return master_.balance().undo(job); }
  Status setDryRun(const std::string& job, bool dry_run) override { return master_.balance().setDryRun(job, dry_run); }
  Result<std::vector<WorkerPlan>> work(const std::vector<WorkerStep>& steps) override {
    return master_.balance().work(steps);
  }

  Result<std::vector<sync::Exchange>> syncTime(int count) override {
    std::vector<sync::Exchange> burst;
    for (int i = 0; i < count; ++i) {
      const int64_t now = rawClock(), reference = master_.referenceNow();
      burst.push_back({now, reference, reference, rawClock()});
    }
    return burst;
  }

  Status fetchTo(const std::function<Status(std::string_view)>& sink, const std::string& name_or_id,
                 const std::vector<std::string>& nodes) override {
    return master_.fetch(
        name_or_id, [&](std::string_view data, uint64_t) { return sink(data); }, nodes);
  }

  std::unique_ptr<SessionCopy> copy(const std::string& id, const std::string& path) override {
    return std::make_unique<LocalCopy>(master_, id, path);
  }

  Status follow(const EventFilter& filter, const std::function<void()>& begun,
                const std::function<bool(const LiveEvent&)>& visit) override {
    Result<std::shared_ptr<Subscription>> subscription = master_.events().subscribe(filter, [this] {
      std::lock_guard lock(mutex_);
      ++news_;
      changed_.notify_all();
    });
    if (!subscription) return subscription.status();
    if (begun) begun();
    LiveEvent event;
    bool ended = false;
    for (uint64_t seen = 0; !ended;) {
      while (!ended && (*subscription)->take(event)) ended = !visit(event);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return cancelled_ || ended || news_ != seen; });
      ended |= cancelled_;
      seen = news_;
    }
    master_.events().unsubscribe(*subscription);
    return {};
  }

  void cancel() override {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  uint64_t news_ = 0;
  bool cancelled_ = false;

  Master& master_;
  const Invite invite_;
};

}  // namespace

std::unique_ptr<Client> makeLocalClient(Master& master, Invite invite) {
  return std::make_unique<LocalClient>(master, std::move(invite));
}

}  // namespace tracesmith::cluster
