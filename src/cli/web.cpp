#include "cli/web.hpp"

#include <cstdio>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/libraries.hpp"
#include "server/api.hpp"

namespace tracesmith::cli {

StopSignals::StopSignals() {
  ::sigemptyset(&set_);
  for (int n : {SIGINT, SIGTERM}) ::sigaddset(&set_, n);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

void StopSignals::wait() const {
  int number;
  ::sigwait(&set_, &number);
}

std::string pageAddress(const std::string& listen, const server::Server& server) {
  const bool v6 = listen.find(':') != std::string::npos;
  return (server.secure() ? "https://" : "http://") + (v6 ? "[" + listen + "]" : listen) + ":" +
         std::to_string(server.port()) + "/";
}

int serveTrace(const std::string& file, server::Options options, bool json) {
  StopSignals signals;
  Result<server::Library*> library = loadServer();
  if (!library) return fail(library.status());
  Result<std::unique_ptr<server::Server>> server = (*library)->serveFile(options, file);
  if (!server) return fail(server.status());
  const std::string address = pageAddress(options.listen, **server);
  if (json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().field("page", address).field("port", static_cast<int64_t>((*server)->port())).endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s: open %s in a browser (Ctrl-C stops the server)\n", file.c_str(), address.c_str());
  }
  std::fflush(stdout);
  signals.wait();
  return 0;
}

}  // namespace tracesmith::cli
