// tracesmith mcp: lets an assistant read traces and look at jobs.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/temporary_folder.hpp"
#include "cli/commands.hpp"
#include "cli/mcp_server.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::vector<std::string> folders = {"."};
  std::string master;
  bool control = false;
  double timeout_s = 120, query_s = 30;
};

int serve(const Options& o) {
  ToolPlaces places;
  for (const std::string& folder : o.folders) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(folder, error);
    if (error || !std::filesystem::is_directory(path, error))
      return fail(Status::notFound("no such folder: " + folder));
    places.folders.push_back(path.string());
  }
  Result<TemporaryFolder> temporary = TemporaryFolder::create();
  if (!temporary) return fail(temporary.status());
  places.temporary = temporary->path();
  if (!o.master.empty()) ::setenv("TRACESMITH_MASTER", o.master.c_str(), 1);
  const char* master = std::getenv("TRACESMITH_MASTER");
  places.cluster = master && *master;
  places.control = o.control;
  places.query_s = o.query_s;
  ::signal(SIGPIPE, SIG_IGN);
  return McpServer(std::move(places), o.timeout_s).run();
}

}  // namespace

void addMcp(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("mcp", "Let an assistant read traces and look at jobs (Model Context Protocol)");
  command.positional("FOLDER", o->folders, "Folders with traces that it may read (default: the current folder)")
      .type("FOLDER...");
  command.option("--master", o->master, "Also offer the sessions, nodes and hangs of this master").type("HOST:PORT");
  command.flag("--allow-control", o->control, "With --master: also offer to start and stop sessions");
  command.option("--timeout", o->timeout_s, "End a tool that takes longer")
      .type("SECONDS")
      .showDefault()
      .check(range(1.0, 86400.0));
  command.option("--query-timeout", o->query_s, "End a statement that takes longer")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 3600.0));
  command.footer(
      "The assistant starts this command and talks to it on standard input and output. Without --allow-control "
      "nothing\nit offers can change anything. A token for the master is taken from TRACESMITH_TOKEN or the "
      "configuration file.\n\nExample:  tracesmith mcp ~/traces --master head:50051");
  command.run([o] { return serve(*o); });
}

}  // namespace tracesmith::cli
