#include <cstring>

#include "cli/gsprof.hpp"
#include "cli/query_worker.hpp"
#include "cli/tree.hpp"
#include "process/inject.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cli;
  if (isQueryWorker(argc, argv)) return runQueryWorker(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], tracesmith::process::kInjectCommand) == 0)
    return tracesmith::process::runInject(argc, argv);
  return isGsprof(argc, argv) ? runGsprof(argc, argv) : makeProgram()->run(argc, argv);
}
