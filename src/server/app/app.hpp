// The page and API of a master, or of one recorded trace: what they answer from, the subjects, and who may ask.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/handlers/handlers.hpp"

namespace tracesmith::server {

/// admit() and handle() may be called from any thread.
class App {
 public:
  static Result<std::unique_ptr<App>> open(const Options& options, cluster::Server* master, const std::string& trace);
  ~App();
  /// Lets go of everybody who waits; no call of handle() may begin after it.
  void stop() { live_->stop(); }

  bool admit(Request& request, const std::map<std::string, std::string>& headers, Answer& answer);
  Answer handle(const Request& request);
  void setPort(uint16_t port) { guard_.setPort(port); }

 private:
  App() = default;
  bool admitOrigin(Request& request, const std::map<std::string, std::string>& headers, Answer& answer);
  Answer refuse(const Request& request, const std::string& why);
  bool admitRole(Request& request, const std::map<std::string, std::string>& headers, const Route& route,
                 Answer& answer);

  Options options_;
  std::string trace_path_;
  access::Guard guard_;
  bool guarded_ = false;  // tokens or certificates are asked for
  std::atomic<uint64_t> requests_{0};
  std::unique_ptr<ClusterView> cluster_;
  std::unique_ptr<FramesWriter> frames_;
  std::unique_ptr<Traces> traces_;
  std::unique_ptr<LiveFeed> live_;
  std::unique_ptr<Sources> sources_;
  std::vector<std::unique_ptr<Handlers>> handlers_;
  std::vector<Route> routes_;
};

}  // namespace tracesmith::server
