// A text for each library that the program loads on use. It changes with everything the library's interface is declared
// with (made by cmake/interface_versions.cmake), so that a program and a library of different builds find out.
#pragma once

namespace tracesmith {

extern const char* const kQueryInterface;
extern const char* const kClusterInterface;
extern const char* const kServerInterface;

}  // namespace tracesmith
