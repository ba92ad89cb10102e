// Run by cmake/DuckDB.cmake to ask an installed DuckDB for its version.
#include <cstdio>

#include "duckdb.h"

int main() { std::fputs(duckdb_library_version(), stdout); }
