#include <cstdio>

#include "cli/tree.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cli;
  Run run;
  const std::unique_ptr<CLI::App> app = makeCommands(run);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app->exit(error);
    std::fprintf(stderr, "tracesmith: %s (see tracesmith --help)\n", error.what());
    return 2;
  }
  return run();
}
