#include "cli/query_worker.hpp"
#include "cli/tree.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cli;
  return isQueryWorker(argc, argv) ? runQueryWorker(argc, argv) : makeProgram()->run(argc, argv);
}
