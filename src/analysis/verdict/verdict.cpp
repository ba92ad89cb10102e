// One sentence a person can act on.
#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/verdict/job_data.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

std::string rankText(int64_t rank, const std::string& node) {
  return (rank == kNull ? std::string("the process") : "rank " + std::to_string(rank)) +
         (node.empty() ? "" : " on " + node);
}

/// The rank that is to blame, or the stage it belongs to.
std::string whoText(const JobData& job, const Blame& b) {
  auto all = job.together.find(b.rank);
  return all == job.together.end() ? rankText(b.rank, b.node) : "the pipeline stage of " + ranksText(all->second);
}

std::string linkText(const LinkResult& link) {
  return link.nodes.size() == 1 ? linkName(link) + " on " + link.nodes[0] : linkName(link);
}

std::string costText(double pct) {
  return pct >= kLeastCostPct ? " cost the job " + percent(pct) + " of its time: "
         : std::isnan(pct)    ? " is slower than its peers, at an unknown cost: "
                              : " is slower than its peers, but the job does not wait for it yet: ";
}

double weightOf(double saved_pct) { return std::isnan(saved_pct) ? 0 : saved_pct; }

template <typename Key>
double hiddenCost(const std::map<Key, double>& costs, const Key& key) {
  auto it = costs.find(key);
  return it == costs.end() ? 0 : it->second;
}

bool sameStage(const JobData& job, const Blame& a, const Blame& b) {
  auto x = job.together.find(a.rank), y = job.together.find(b.rank);
  return x != job.together.end() && y != job.together.end() && x->second == y->second;
}

/// Everything else that costs the job something, or would if what the verdict names were well; except the communicators
/// of a node that was named already. Of a rank the cost may not be known (only of the slowest it is asked for); that of
/// a link is most often hidden by computation, so it must be.
std::vector<std::string> alsoFound(const JobData& job, const Analysis& a, const Blame* rank, const LinkResult* link) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<double, std::string>> found;
  auto add = [&](const std::string& what, double cost, double hidden, const std::string& evidence) {
    if (cost < kLeastCostPct && hidden >= kLeastCostPct)
      found.emplace_back(
          0, what + " would cost the job " + percent(hidden) + " of its time once that is fixed: " + evidence);
    else
      found.emplace_back(weightOf(cost), what + costText(cost) + evidence);
  };
  for (const Blame& b : a.blame) {
    const double hidden = hiddenCost(job.hidden_ranks, b.rank);
    if (b.significant && &b != rank && !(rank && sameStage(job, b, *rank)) &&
        (std::isnan(b.saved_pct) || std::max(b.saved_pct, hidden) >= kLeastCostPct))
      if (auto all = job.together.find(b.rank); all == job.together.end() || all->second[0] == b.rank)
        add(whoText(job, b), b.saved_pct, hidden, b.evidence);
  }
  std::set<std::vector<std::string>> nodes;
  if (link) nodes.insert(link->nodes);
  for (const LinkResult& l : a.links) {
    const double hidden = hiddenCost(job.hidden_links, l.group);
    if (l.significant && &l != link && std::max(weightOf(l.saved_pct), hidden) >= kLeastCostPct &&
        nodes.insert(l.nodes).second)
      add(linkText(l), l.saved_pct, hidden, l.evidence);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<std::string> out;
  for (auto& [weight, text] : found) {
    if (out.size() == kMost) {
      out.push_back("and " + std::to_string(found.size() - kMost) + " more");
      break;
    }
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace

namespace {

constexpr double kLeastMixedPct = 1;  // of the job's time

std::string mixedText(const MixedDevices& m) {
  const bool one = m.slow.size() == 1;
  std::string text = "mixed devices: " + ranksText(m.slow) + " (" + m.slow_model + ") " + (one ? "sets" : "set") +
                     " the pace, computing " + sentenceOf(Cause::mixed_devices, m.factor) + " (" + m.other_models +
                     "); with work in proportion to the speed of each GPU the job would be " + percent(m.balanced_pct) +
                     " faster";
  if (weightOf(m.without_pct) >= kLeastMixedPct)
    text += ", without " + std::string(one ? "it " : "them ") + percent(m.without_pct);
  if (!std::isnan(m.measured_ratio)) {
    char measured[120];
    std::snprintf(measured, sizeof measured, "; the benchmarks of both models explain up to %.1f ×", m.measured_ratio);
    text += measured;
  } else if (m.alone) {
    text += "; no other rank has its GPU model, so it was compared with its own past";
  }
  return text;
}

}  // namespace

std::string linkName(const LinkResult& link) {
  const size_t arrow = link.group.find("→");
  if (arrow == std::string::npos) return "communicator " + link.group;
  const size_t space = link.group.rfind(' ');
  const size_t from = space == std::string::npos ? 0 : space + 1;
  return "the link from rank " + link.group.substr(from, arrow - from) + " to rank " +
         link.group.substr(arrow + std::string_view("→").size());
}

Verdict makeVerdict(const JobData& job, const Analysis& a) {
  Verdict v;
  const Blame* rank = nullptr;
  auto weight = [](const Blame& b) { return weightOf(b.saved_pct); };
  for (const Blame& b : a.blame)
    if (b.significant &&
        (!rank || weight(b) > weight(*rank) || (weight(b) == weight(*rank) && b.slowdown > rank->slowdown)))
      rank = &b;
  const LinkResult* link = nullptr;
  for (const LinkResult& l : a.links)
    if (l.significant && (!link || weightOf(l.saved_pct) > weightOf(link->saved_pct))) link = &l;
  if (rank && link) {
    if (weightOf(link->saved_pct) > weight(*rank))
      rank = nullptr;
    else
      link = nullptr;
  }
  // What costs next to nothing and is not even sure is no headline.
  auto minor = [](double cost_pct, double confidence) { return weightOf(cost_pct) < 1 && confidence < 0.7; };
  if (rank && minor(rank->saved_pct, rank->confidence)) rank = nullptr;
  if (link && minor(link->saved_pct, link->confidence)) link = nullptr;
  // GPUs of different models are nobody's fault: they are the headline only where they cost more than what is.
  const bool mixed = job.mixed && weightOf(job.mixed->balanced_pct) >= kLeastMixedPct;
  const double fault = rank ? weight(*rank) : link ? weightOf(link->saved_pct) : 0;
  if (mixed && job.mixed->balanced_pct > fault) {
    v.also = alsoFound(job, a, nullptr, nullptr);
    v.kind = VerdictKind::none;
    v.cause = Cause::mixed_devices;
    v.cost_pct = job.mixed->balanced_pct;
    v.confidence = job.clocks_known ? 0.9 : 0.7;
    v.text = mixedText(*job.mixed);
    v.next = adviceOf(Cause::mixed_devices);
    return v;
  }
  v.also = alsoFound(job, a, rank, link);
  if (mixed) v.also.push_back(mixedText(*job.mixed));
  if (rank) {
    v.kind = VerdictKind::rank;
    const bool alone = !job.together.contains(rank->rank);
    v.rank = alone ? rank->rank : kNull;
    v.node = alone ? rank->node : "";
    v.cause = rank->cause;
    v.cost_pct = rank->saved_pct;
    v.confidence = rank->confidence;
    v.text = whoText(job, *rank) + costText(v.cost_pct) + rank->evidence;
    auto device = job.device_of.find(rank->rank);
    v.next = adviceOf(rank->cause, device == job.device_of.end() || v.node.empty()
                                       ? ""
                                       : "GPU " + std::to_string(device->second) + " of " + v.node);
    return v;
  }
  if (link) {
    v.kind = VerdictKind::link;
    v.group = link->group;
    v.cause = Cause::slow_link;
    if (link->nodes.size() == 1) v.node = link->nodes[0];
    v.cost_pct = link->saved_pct;
    v.confidence = link->confidence;
    v.text = linkText(*link) + costText(v.cost_pct) + link->evidence;
    v.next = adviceOf(Cause::slow_link);
    return v;
  }
  if (a.ranks == 0) {
    v.text = a.events == 0 ? "no events in this trace"
                           : "no GPU activity in this trace: its " + humanCount(a.events) +
                                 " events are from hosts only, so who waited is unknown";
    return v;
  }
  const std::optional<OwnLoss> loss = ownLoss(job, a);
  if (a.ranks == 1 && loss) {
    v.kind = VerdictKind::none;
    v.cause = loss->cause;
    v.cost_pct = loss->cause == Cause::busy ? kUnknown : loss->pct;
    v.confidence = 0.8;
    v.text = loss->text;
    v.next = adviceOf(loss->cause);
    if (const std::string rest = whereTimeGoes(job, a); !rest.empty() && loss->cause != Cause::busy)
      v.also.push_back(rest.substr(2));
    return v;
  }
  if (job.device_lost && job.table.instances.empty()) {
    v.text = "no kernels in this trace, though its hosts launched some: it was cut short, or the GPU was not recorded";
    v.next = "record it again, and let the profiler end before the job does; import reports what it could not read";
    return v;
  }
  if (a.ranks == 1) {
    v.text = "only one rank: nothing to compare it with" + whereTimeGoes(job, a);
    return v;
  }
  if (job.table.instances.empty()) {
    v.kind = VerdictKind::none;
    v.text = "cannot tell who waited: no collectives between the " + std::to_string(a.ranks) + " ranks" +
             whereTimeGoes(job, a);
    return v;
  }
  v.kind = VerdictKind::none;
  v.confidence = job.clocks_known ? 0.8 : 0.4;
  v.text = "no rank or link stands out" + whereTimeGoes(job, a);
  if (loss) v.next = adviceOf(loss->cause);
  return v;
}

}  // namespace tracesmith::analysis
