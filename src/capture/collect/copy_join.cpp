// The part of NcclJoin for collectives that the copy engines do.
#include <algorithm>

#include "capture/collect/nccl_join.hpp"

namespace tracesmith::capture {

using ring::CopyRecord;

bool NcclJoin::Launch::allCopied() const {
  return !correlations.empty() && std::all_of(correlations.begin(), correlations.end(), [&](uint32_t correlation) {
    return std::any_of(copied.begin(), copied.end(), [&](const CopyRecord& c) { return c.correlation == correlation; });
  });
}

void NcclJoin::copy(const CopyRecord& r, uint64_t now) {
  if (!r.set && r.graph == 0) copies.push_back({r, now});  // the launch may not have been read
}

/// It ran, and nobody knows when.
void NcclJoin::hide(const Launch& launch, const Done& done) {
  for (Operation o : launch.operations) {
    o.hidden = true;
    ++hidden_copies;
    done(o, nullptr);
  }
}

/// Gives launches the copies of their calls.
void NcclJoin::takeCopies() {
  std::map<uint32_t, Launch*> launches;  // by correlation
  for (auto& [id, stream] : streams)
    for (Launch& l : stream.launches)
      if (l.copies)
        for (uint32_t correlation : l.correlations) launches[correlation] = &l;
  std::erase_if(copies, [&](const Copy& c) {
    auto found = launches.find(c.record.correlation);
    if (found == launches.end()) return false;
    found->second->copied.push_back(c.record);
    found->second->copied_at = std::max(found->second->copied_at, c.since);
    return true;
  });
}

/// Those whose copies have all ended a while ago.
void NcclJoin::passCopies(uint64_t now, const Done& done) {
  const JoinTime at = time(now);
  if (copies_waiting > 0) takeCopies();
  std::erase_if(copies, [&](const Copy& c) { return at.waited(c.since); });
  if (copies_waiting == 0) return;
  for (auto& [id, stream] : streams)
    std::erase_if(stream.launches, [&](Launch& l) {
      if (!l.copies) return false;
      if (l.correlations.empty() && recorded(l) && now != UINT64_MAX && at.waited(l.since)) {
        drop(l, true, done);
        return true;
      }
      if (!l.allCopied() || !at.waited(l.copied_at)) return false;
      ring::KernelRecord whole{.start = UINT64_MAX};
      for (const CopyRecord& c : l.copied) {
        if (c.start < whole.start)
          whole = {.name = c.name,
                   .start = c.start,
                   .end = whole.end,
                   .device = c.device,
                   .stream = c.stream,
                   .correlation = c.correlation,
                   .context = c.context};
        whole.end = std::max(whole.end, c.end);
      }
      --copies_waiting;
      for (const Operation& o : l.operations) done(o, &whole);
      return true;
    });
}

}  // namespace tracesmith::capture
