#include "cluster/master/segment_marks.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/file.hpp"

namespace tracesmith::cluster {

Status SegmentMarks::open(const std::string& path, bool& found) {
  path_ = path;
  std::error_code error;
  found = std::filesystem::exists(path, error);
  if (!found) return {};
  std::ifstream in(path);
  if (!in) return Status::io("cannot read " + path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string node, epoch;
    uint32_t number = 0;
    uint64_t bytes = 0;
    if (words >> node >> epoch >> number >> bytes) marks_[{node, epoch, number}] = {bytes, false};
  }
  return {};
}

uint64_t SegmentMarks::of(const SegmentInfo& s) const {
  const auto mark = marks_.find({s.node, s.epoch, s.number});
  return mark == marks_.end() ? 0 : mark->second.bytes;
}

void SegmentMarks::set(const SegmentInfo& s, uint64_t bytes) {
  marks_[{s.node, s.epoch, s.number}] = {bytes, true};
  changed_ = true;
}

void SegmentMarks::keep(const SegmentInfo& s) {
  if (const auto mark = marks_.find({s.node, s.epoch, s.number}); mark != marks_.end()) mark->second.kept = true;
}

void SegmentMarks::tidy(const std::string& node) {
  for (auto it = marks_.lower_bound({node, "", 0}); it != marks_.end() && std::get<0>(it->first) == node;) {
    if (!std::exchange(it->second.kept, false)) {
      it = marks_.erase(it);
      changed_ = true;
    } else {
      ++it;
    }
  }
}

Status SegmentMarks::save() {
  if (!changed_) return {};
  std::string text;
  for (const auto& [key, mark] : marks_)
    text += std::get<0>(key) + " " + std::get<1>(key) + " " + std::to_string(std::get<2>(key)) + " " +
            std::to_string(mark.bytes) + "\n";
  Result<OutputFile> out = OutputFile::create(path_);
  if (!out) return out.status();
  TS_TRY(out->write(text));
  TS_TRY(out->commit());
  changed_ = false;
  return {};
}

}  // namespace tracesmith::cluster
