// "1 node", "1,234 nodes": numbers with what they count.
#pragma once

#include <cstdint>
#include <string>

namespace tracesmith {

/// `many` is for words that do not just take an s.
std::string counted(uint64_t n, const char* one, const char* many = nullptr);

}  // namespace tracesmith
