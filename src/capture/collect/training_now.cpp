#include "capture/collect/training_now.hpp"

#include <cstring>

#include "base/clock.hpp"

namespace tracesmith::capture {

using ring::Kind;

namespace {

constexpr size_t kNone = std::size(model::kRates);
constexpr size_t kMostNames = 4096;               // a ring is its user's word
constexpr uint64_t kPatienceNs = 10'000'000'000;  // beyond some steps

std::string ownFolder() {
  Result<std::string> folder = ring::ringFolder();
  return folder ? *folder : "";
}

}  // namespace

size_t TrainingNow::rateOf(const ring::RingReader& ring, uint32_t name) {
  if (names_.size() > kMostNames) names_.clear();
  auto [it, fresh] = names_.try_emplace(name, kNone);
  if (fresh)
    for (size_t i = 0; i < kNone; ++i)
      if (ring.string(name) == model::kRates[i].counter) it->second = i;
  return it->second;
}

bool TrainingNow::wanted(const ring::RingReader& ring, const ring::Record& r) {
  return r.kind == Kind::step || (r.kind == Kind::counter && rateOf(ring, r.name) != kNone);
}

void TrainingNow::take(const ring::RingReader& ring, const ring::Record& r) {
  if (r.kind == Kind::step) {
    const ring::StepRecord step = stepOf(r);
    if (step.end == 0) {
      step_ = step.step;
      step_start_ = step.start;
    } else if (step.step == step_) {
      step_start_ = 0;
    }
    return;
  }
  const size_t rate = rateOf(ring, r.name);
  const ring::CounterRecord counter = counterOf(r);
  if (rate == kNone || counter.start < values_[rate].at_ns) return;
  values_[rate] = {counter.value, counter.start, values_[rate].at_ns};
}

std::optional<TrainingNow::Step> TrainingNow::step(uint64_t now) const {
  if (step_start_ == 0) return std::nullopt;
  return Step{step_, static_cast<int64_t>(now > step_start_ ? now - step_start_ : 0)};
}

model::Rates TrainingNow::rates(uint64_t now) const {
  model::Rates rates;
  for (size_t i = 0; i < kNone; ++i) {
    const Value& v = values_[i];
    if (v.at_ns == 0) continue;
    const uint64_t every = v.before_ns == 0 ? 0 : v.at_ns - v.before_ns;
    if (now < v.at_ns || now - v.at_ns <= 3 * every + kPatienceNs) rates.*model::kRates[i].value = v.value;
  }
  return rates;
}

ProcessesNow::ProcessesNow() : ProcessesNow(ownFolder()) {}

ProcessesNow::ProcessesNow(const std::string& folder)
    : folders_(folder, ring::RingFolders::rootsFromEnvironment(), false) {
  ring::surviveCutRings();  // they may be other users' files
}

std::vector<ProcessNow> ProcessesNow::read() {
  std::map<std::string, Followed> found;
  std::vector<ProcessNow> all;
  for (const std::string& path : folders_.rings()) {
    Followed f;
    if (auto known = rings_.find(path); known != rings_.end()) {
      f = std::move(known->second);
    } else if (Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path)) {
      f.ring = std::move(*reader);
    }
    if (!f.ring || !f.ring->alive()) continue;
    const ring::RingReader& ring = *f.ring;
    ring.follow(
        f.cursors, [&](const ring::Record& r) { return f.training.wanted(ring, r); },
        [&](uint32_t, const ring::Record& r) { f.training.take(ring, r); });
    const ring::RingHeader& h = ring.header();
    const uint64_t now = rawClock();
    ProcessNow& p = all.emplace_back();
    p.pid = ring.shownPid();
    p.rank = h.rank.load();
    p.role = ring.string(h.role.load());
    p.command.assign(h.command, ::strnlen(h.command, sizeof h.command));
    p.simulated = h.simulated != 0;
    p.recording = h.recording.load() != 0;
    p.mode = h.mode.load();
    p.ring = path;
    p.step = f.training.step(now);
    p.rates = f.training.rates(now);
    found.emplace(path, std::move(f));
  }
  rings_ = std::move(found);
  return all;
}

}  // namespace tracesmith::capture
