#include "api_program.c"  // the same program, as C++
