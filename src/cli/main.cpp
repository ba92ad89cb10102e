#include "cli/tree.hpp"

int main(int argc, char** argv) { return tracesmith::cli::makeProgram()->run(argc, argv); }
