// UTF-8 of texts from outside: SQL and JSON take nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tracesmith::trace {

/// Replaces what is not UTF-8 by '?', byte by byte; returns how many.
uint64_t repairUtf8(char* begin, char* end);
/// Where the character that `end` cuts begins, or `end`.
char* cutCharacter(char* begin, char* end);
/// The first `bytes` bytes, without a character that this would cut.
std::string_view utf8Prefix(std::string_view s, size_t bytes);

}  // namespace tracesmith::trace
