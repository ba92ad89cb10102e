#include "base/count.hpp"

#include "base/text.hpp"

namespace tracesmith {

std::string counted(uint64_t n, const char* one, const char* many) {
  std::string text = humanCount(n) + " " + (n == 1 || !many ? one : many);
  if (n != 1 && !many) text += "s";
  return text;
}

}  // namespace tracesmith
