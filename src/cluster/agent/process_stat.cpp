#include "cluster/agent/process_stat.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tracesmith::cluster {

std::optional<ProcessStat> readStat(int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream words(text.substr(name_end + 1));
  char state = 0;
  uint64_t user = 0, system = 0;
  words >> state;
  for (int i = 0; i < 10; ++i) {
    std::string word;  // some are negative
    words >> word;
  }
  if (!(words >> user >> system)) return {};
  const uint64_t tick_ns = 1'000'000'000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return ProcessStat{(state | 32) == 't', (user + system) * tick_ns};
}

std::optional<uint64_t> readIo(int64_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/io");
  std::string read_key, write_key;
  uint64_t read = 0, written = 0;
  if (!(in >> read_key >> read >> write_key >> written) || read_key != "rchar:" || write_key != "wchar:") return {};
  return read + written;
}

}  // namespace tracesmith::cluster
