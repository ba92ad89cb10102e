#include "server/timeline/track_builder.hpp"

#include <algorithm>

namespace tracesmith::server {
namespace {

constexpr size_t kLeastBuckets = 2048;  // of a track with few events
constexpr size_t kEventsPerBucket = 16;
constexpr size_t kLongs = 4096;  // more are only counted: with so many at once the track is busy anyway

void vote(uint32_t& name, uint8_t& type, float& votes, uint32_t other, uint8_t other_type, float weight) {
  if (name == other) {
    votes += weight;
  } else if (votes >= weight) {
    votes -= weight;
  } else {
    votes = weight - votes;
    name = other;
    type = other_type;
  }
}

}  // namespace

size_t TrackBuilder::limit() const { return std::max<size_t>(kLeastBuckets, events_ / kEventsPerBucket); }

TrackBuilder::Building& TrackBuilder::at(uint32_t index) {
  // Rows of a block are nearly in order.
  for (size_t back = 1; back <= std::min<size_t>(4, buckets_.size()); ++back)
    if (Building& b = buckets_[buckets_.size() - back]; b.index == index) return b;
  sorted_ &= buckets_.empty() || buckets_.back().index < index;
  return buckets_.emplace_back(Building{index, 0, trace::kNoName, 0, 0, 0});
}

void TrackBuilder::add(int64_t ts, int64_t dur, uint32_t name, uint8_t type) {
  depth_.add(ts, dur);
  place(ts, dur, name, type);
}

void TrackBuilder::place(int64_t ts, int64_t dur, uint32_t name, uint8_t type) {
  ++events_;
  if (dur >= long_ns_ && longs_.size() < kLongs) {
    longs_.push_back({ts, dur, name, type});
    return;
  }
  if (buckets_.size() >= std::max(tidy_at_, 2 * kLeastBuckets)) tidy();
  ++at(static_cast<uint32_t>(ts >> shift_)).count;
  if (dur >= long_ns_) return;
  const int64_t end = ts + std::max<int64_t>(dur, 1);
  for (int64_t t = ts; t < end;) {
    const int64_t next = std::min(end, ((t >> shift_) + 1) << shift_);
    Building& b = at(static_cast<uint32_t>(t >> shift_));
    const float weight = static_cast<float>(next - t);
    vote(b.name, b.type, b.vote, name, type, weight);
    if (dur > 0) b.busy += weight;
    t = next;
  }
}

void TrackBuilder::merge(Building& into, const Building& from) {
  into.count += from.count;
  into.busy += from.busy;
  vote(into.name, into.type, into.vote, from.name, from.type, from.vote);
}

/// Sorted, each bucket once, no more of them than allowed.
void TrackBuilder::tidy() {
  if (!sorted_)
    std::stable_sort(buckets_.begin(), buckets_.end(),
                     [](const Building& a, const Building& b) { return a.index < b.index; });
  sorted_ = true;
  auto unite = [&] {
    size_t kept = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (kept > 0 && buckets_[kept - 1].index == buckets_[i].index)
        merge(buckets_[kept - 1], buckets_[i]);
      else
        buckets_[kept++] = buckets_[i];
    }
    buckets_.resize(kept);
  };
  unite();
  while (buckets_.size() > limit()) {
    coarsen();
    unite();
  }
  tidy_at_ = 2 * std::max(limit(), kLeastBuckets);
}

void TrackBuilder::coarsen() {
  ++shift_;
  for (Building& b : buckets_) b.index >>= 1;
}

void TrackBuilder::take(TrackBuilder&& other) {
  other.tidy();
  tidy();
  while (shift_ < other.shift_) coarsen();
  while (other.shift_ < shift_) other.coarsen();
  events_ += other.events_;
  depth_.take(other.depth_);
  // Of a trace that grew, what is new comes after what there was.
  sorted_ = buckets_.empty() || other.buckets_.empty() || buckets_.back().index <= other.buckets_.front().index;
  buckets_.insert(buckets_.end(), other.buckets_.begin(), other.buckets_.end());
  longs_.insert(longs_.end(), other.longs_.begin(), other.longs_.end());
  tidy();
}

void TrackBuilder::grow(uint32_t shift, int64_t long_ns) {
  long_ns_ = std::max(long_ns_, long_ns);
  if (shift_ >= shift) return;
  tidy();
  while (shift_ < shift) coarsen();
  tidy();
  std::vector<LongEvent> before;
  before.swap(longs_);
  for (const LongEvent& e : before) {
    --events_;  // place() counts it again
    place(e.ts, e.dur, e.name, static_cast<uint8_t>(e.type));
  }
}

void TrackBuilder::write(TrackIndex& out) {
  tidy();
  out.shift = shift_;
  out.events = events_;
  out.depth = depth_.depth();
  out.buckets.reserve(buckets_.size());
  for (const Building& b : buckets_) out.buckets.push_back({b.index, b.count, b.name, b.type, 0, b.busy});
  std::sort(longs_.begin(), longs_.end(), [](const LongEvent& a, const LongEvent& b) { return a.ts < b.ts; });
  out.longs = longs_;
}

}  // namespace tracesmith::server
