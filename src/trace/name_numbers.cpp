#include "trace/name_numbers.hpp"

namespace tracesmith::trace {

Result<NameNumbers> NameNumbers::load(const Reader& reader, const NameNumbers* before) {
  NameNumbers names;
  std::unordered_map<std::string_view, uint32_t> known;
  if (before)
    for (std::string_view text : before->texts_) {
      known.try_emplace(text, static_cast<uint32_t>(names.texts_.size()));
      names.texts_.push_back(text);
    }
  for (const Block& block : reader.blocks()) {
    if (names.streams_.contains(block.stream)) continue;
    Result<const Strings*> strings = reader.strings(block.stream);
    if (!strings) return strings.status();
    std::vector<uint32_t>& numbers = names.streams_[block.stream];
    numbers.resize((*strings)->size(), kNoName);
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::string_view text = (*strings)->at(static_cast<int64_t>(i));
      auto [it, fresh] = known.try_emplace(text, static_cast<uint32_t>(names.texts_.size()));
      if (fresh)
        names.texts_.push_back(text);
      else
        names.texts_[it->second] = text;  // this reader's, which stays
      numbers[i] = it->second;
    }
  }
  return names;
}

}  // namespace tracesmith::trace
