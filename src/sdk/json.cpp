#include "sdk/json.hpp"

namespace tracesmith::sdk {

const std::vector<std::string>* splitNames(std::string_view list) {
  auto* names = new std::vector<std::string>;  // for the life of the process
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, end);
    while (name.starts_with(' ')) name.remove_prefix(1);
    names->emplace_back(name);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

}  // namespace tracesmith::sdk
