#include "process/frame_numbers.hpp"

#include "process/merge.hpp"

namespace tracesmith::process {
namespace {

constexpr size_t kMostKnown = 1 << 20;  // frames whose numbers are kept

}  // namespace

void FrameNumbers::check(PythonStacks& python, const RawStack& stack) {
  if (codes_.size() > kMostKnown || known_offsets_ > kMostKnown) {
    codes_.clear();
    known_offsets_ = 0;
  }
  for (const RawFrame& f : stack.frames) {
    const auto at = codes_.find(f.code);
    if (at == codes_.end() || python.stillThere(f)) continue;
    known_offsets_ -= at->second.size();
    codes_.erase(at);
  }
}

uint32_t FrameNumbers::of(PythonStacks& python, const RawFrame& raw) {
  auto& offsets = codes_[raw.code];
  const auto [at, added] = offsets.try_emplace(raw.offset);
  if (!added) return at->second;
  ++known_offsets_;
  const std::optional<PythonFrame> frame = python.resolve(raw);
  return at->second = table_.frame(frame ? trace::pythonFrame(frame->function, frame->file, frame->line) : "?");
}

const FrameNumbers::Native& FrameNumbers::of(Unwinder& unwinder, uint64_t place) {
  if (places_.size() >= kMostKnown && !places_.contains(place)) places_.clear();
  const auto [at, added] = places_.try_emplace(place);
  if (!added) return at->second;
  const NativeFrame& f = unwinder.at(place).back();
  return at->second = {table_.frame(trace::nativeFrame(f.function, f.file, f.address)), isLoop(f), f.file.empty()};
}

void FrameNumbers::forget() {
  codes_.clear();
  known_offsets_ = 0;
  places_.clear();
}

}  // namespace tracesmith::process
