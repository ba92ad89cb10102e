#include "cluster/wire/segment.hpp"

#include <cstdio>

namespace tracesmith::cluster {

std::string segmentFile(const std::string& epoch, uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "%08u", number);
  return epoch + "-" + text + ".sbt";
}

bool parseSegmentFile(const std::string& file, std::string& epoch, uint32_t& number) {
  if (file.size() != 29 || file[16] != '-' || !file.ends_with(".sbt")) return false;
  if (file.find_first_not_of("0123456789abcdef") != 16) return false;
  if (file.find_first_not_of("0123456789", 17) != 25) return false;
  epoch = file.substr(0, 16);
  number = static_cast<uint32_t>(std::stoul(file.substr(17, 8)));
  return true;
}

}  // namespace tracesmith::cluster
