// Serving the page until somebody says stop.
#pragma once

#include <signal.h>

#include <memory>
#include <string>

#include "server/api.hpp"

namespace tracesmith::cli {

/// SIGINT and SIGTERM, blocked from its making on, before there are threads: only wait() gets them.
class StopSignals {
 public:
  StopSignals();
  void wait() const;

 private:
  sigset_t set_;
};

/// "http://127.0.0.1:8091/"
std::string pageAddress(const std::string& listen, const server::Server& server);
/// tracesmith view FILE --web
int serveTrace(const std::string& file, server::Options options, bool json);

}  // namespace tracesmith::cli
