// One process that an agent starts for somebody else, and everything that it starts itself. It ends with the agent,
// however that ends.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::cluster {

/// One thread at a time.
class RankProcess {
 public:
  struct Start {
    std::vector<std::string> command;
    std::map<std::string, std::string> environment;  // all of it
    std::string folder;                              // empty: ours
    double grace_s = 10;                             // between SIGTERM and SIGKILL
  };
  /// What came out of it.
  struct End {
    int error = 0;   // errno: it could not be started
    int status = 0;  // as of waitpid()
  };

  static Result<std::unique_ptr<RankProcess>> start(const Start& start);
  /// Ends what still runs, at once.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int out() const { return out_; }      ///< to read its standard output from
  int err() const { return err_; }      ///< and its standard error
  int endFile() const { return end_; }  ///< readable once it has ended
  bool takeEnd(End& end);               ///< false: it has not ended
  /// SIGTERM to it and all processes of its group; after the grace time SIGKILL. Returns at once.
  void terminate();

 private:
  RankProcess() = default;

  pid_t keeper_ = -1;
  int out_ = -1, err_ = -1, end_ = -1, control_ = -1;
};

}  // namespace tracesmith::cluster
