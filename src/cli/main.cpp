#include "cli/gsprof.hpp"
#include "cli/query_worker.hpp"
#include "cli/tree.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cli;
  if (isQueryWorker(argc, argv)) return runQueryWorker(argc, argv);
  return isGsprof(argc, argv) ? runGsprof(argc, argv) : makeProgram()->run(argc, argv);
}
