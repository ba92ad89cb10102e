#include "server/sources/frames_writer.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/free_path.hpp"
#include "cluster/fetch_frames.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(500);
constexpr int64_t kPatienceNs = 30'000'000'000;  // for nodes that do not answer

int64_t unixNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool settled(const cluster::SessionInfo& s) {
  return s.state == model::SessionState::complete ||
         (s.state != model::SessionState::recording && s.end_ns && unixNow() - s.end_ns > kPatienceNs);
}

}  // namespace

FramesWriter::FramesWriter(ClusterView& cluster, std::string folder)
    : cluster_(cluster), folder_(std::move(folder)), thread_([this] { run(); }) {}

FramesWriter::~FramesWriter() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::optional<std::string> FramesWriter::fileOf(const cluster::SessionInfo& session) const {
  std::lock_guard lock(mutex_);
  if (const auto found = files_.find(session.id); found != files_.end()) return found->second;
  if (left_.contains(session.id)) return std::nullopt;
  return folder_ + "/" + session.name + ".json";
}

void FramesWriter::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kEvery, [this] { return stop_; })) return;
    }
    look();
  }
}

void FramesWriter::look() {
  const auto status = cluster_.status();
  if (!status) return;
  const bool first = !std::exchange(looked_, true);
  for (const cluster::SessionInfo& s : (*status)->sessions) {
    bool todo = false;
    {
      std::lock_guard lock(mutex_);
      if (stop_) return;
      if (s.state == model::SessionState::recording) {  // perhaps resumed: then its frames are to be written again
        files_.erase(s.id);
        left_.erase(s.id);
      } else if (settled(s)) {
        if (first) left_.insert(s.id);
        todo = !files_.contains(s.id) && !left_.contains(s.id);
      }
    }
    if (todo) write(s);
  }
}

void FramesWriter::write(const cluster::SessionInfo& session) {
  const std::string path = freePath(folder_ + "/" + session.name, ".json");
  auto going = [this](uint64_t) {
    std::lock_guard lock(mutex_);
    return !stop_;
  };
  const Status s = cluster::fetchFrames(cluster_.client(), session.id, path, going);
  std::lock_guard lock(mutex_);
  if (!s) {
    left_.insert(session.id);
    if (stop_) return;
    std::fprintf(stderr,
                 "tracesmith: warning: cannot write the frames of session %s: %s (get them with `tracesmith cluster "
                 "recover --id %s --export FILE.json`)\n",
                 session.name.c_str(), s.message().c_str(), session.id.c_str());
    return;
  }
  std::fprintf(stderr, "tracesmith: frames of session %s: %s\n", session.name.c_str(), path.c_str());
  files_[session.id] = path;
}

}  // namespace tracesmith::server
