#include "analysis/live/hang_text.hpp"

#include <algorithm>
#include <set>

#include "base/count.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis::live {
namespace {

using Op = WaitGraph::Op;
using Rank = WaitGraph::Rank;

constexpr int64_t kWaitsNs = 500'000'000;    // who stands still for so long waits too
constexpr int64_t kBusyNs = 1'500'000'000;   // whose GPU has done something since is at work
constexpr int64_t kStaleNs = 1'700'000'000;  // a node that should have told something since may be about to be silent
constexpr double kFilesPerS = 1e6;           // bytes; logs are less
constexpr size_t kMostNamed = 8, kMostOps = 32;

Culprit culprit(const Rank& rank, std::string reason, double confidence) {
  Culprit c;
  c.rank = rank.rank;
  c.node = rank.node;
  if (rank.process) c.pid = rank.process->pid;
  c.reason = std::move(reason);
  c.confidence = confidence;
  return c;
}

bool busy(const Rank& r) {
  return r.process && !r.silent && r.process->state == ProcessState::running && r.process->quiet_ns &&
         *r.process->quiet_ns < kBusyNs;
}

/// Whether the process works, though its GPU does not: it may save a checkpoint, or run in a circle.
bool busyHost(const Rank& r) {
  return r.process && !r.silent && r.process->state == ProcessState::running && r.process->cpu_share.value_or(0) > 0.5;
}

/// Whether it reads or writes files: it saves a checkpoint, and no time is too long for that.
bool atFiles(const Rank& r) {
  return r.process && !r.silent && r.process->state == ProcessState::running &&
         r.process->io_bytes_per_s.value_or(0) > kFilesPerS;
}

/// Operations in which a rank has stood still for a while. A process that is stopped or gone waits for nobody.
std::vector<const Op*> waitsOf(const WaitGraph& graph, size_t rank) {
  std::vector<const Op*> waits;
  const Rank& r = graph.ranks()[rank];
  if (!r.process || r.silent || r.process->state != ProcessState::running) return waits;
  for (size_t i : graph.waitsIn(rank)) {
    const Op& op = graph.ops()[i];
    for (size_t k = 0; k < op.waiting.size(); ++k)
      if (op.waiting[k] == rank && op.waiting_ns[k] >= kWaitsNs) waits.push_back(&op);
  }
  return waits;
}

std::string rankText(const Rank& r) {
  std::string text = r.rank >= 0 ? "rank " + std::to_string(r.rank) : "a rank";
  if (r.process && r.rank < 0) text = "process " + std::to_string(r.process->pid);
  if (r.process && !r.process->role.empty()) text += " (" + r.process->role + ")";
  return r.node.empty() ? text : text + " on " + r.node;
}

std::string opText(const WaitGraph& graph, const Op& op) {
  std::string peer;
  if (op.peer >= 0)
    peer = (op.op == "send" ? " to " : " from ") + rankText(graph.ranks()[static_cast<size_t>(op.peer)]);
  return op.op + " " + std::to_string(op.seq) + peer + " of " + (op.comm_name.empty() ? "" : op.comm_name + " ") + "(" +
         commName(op.comm) + ", " +
         (op.counted ? "by NCCL's own count" : humanBytes(static_cast<uint64_t>(std::max<int64_t>(0, op.bytes)))) + ")";
}

/// What is left when everybody who waits for somebody else is set aside.
struct Roots {
  std::set<size_t> ranks;          // are waited for and wait for nobody
  std::set<const Op*> unfinished;  // all are there, and yet they do not end
  std::set<size_t> seen;           // all that stand still or are waited for
  std::vector<const Op*> reached;  // all that somebody waits in, on the way
};

Roots findRoots(const WaitGraph& graph, const std::vector<const Op*>& stuck) {
  Roots roots;
  std::vector<const Op*> open(stuck.begin(), stuck.end());
  std::set<const Op*> done;
  while (!open.empty()) {
    const Op* op = open.back();
    open.pop_back();
    if (!done.insert(op).second) continue;
    roots.reached.push_back(op);
    roots.seen.insert(op->waiting.begin(), op->waiting.end());
    if (op->missing.empty()) {
      // Who has been silent since it came may have gone since.
      const size_t before = roots.ranks.size();
      for (size_t r : op->entered)
        if (graph.ranks()[r].silent) roots.ranks.insert(r);
      if (roots.ranks.size() == before) roots.unfinished.insert(op);
    }
    for (size_t m : op->missing) {
      if (!roots.seen.insert(m).second && roots.ranks.contains(m)) continue;
      const std::vector<const Op*> waits = waitsOf(graph, m);
      if (waits.empty()) roots.ranks.insert(m);
      open.insert(open.end(), waits.begin(), waits.end());
    }
  }
  return roots;
}

std::string stepText(const ProcessReport& p) {
  std::string text;
  if (p.step && p.step_age_ns)
    text = "in step " + std::to_string(*p.step) + " for " + humanNs(static_cast<double>(*p.step_age_ns));
  if (p.quiet_ns) {
    if (!text.empty()) text += ", ";
    text += "its GPU idle for " + humanNs(static_cast<double>(*p.quiet_ns));
  }
  return text;
}

Culprit blame(const WaitGraph& graph, size_t rank) {
  const Rank& r = graph.ranks()[rank];
  Culprit c = culprit(r, "", 0.95);
  if (!r.process) {
    c.reason = "no agent reports it";
    c.confidence = 0.6;
  } else if (r.process->state == ProcessState::dead) {
    c.reason = "its process has died";
    c.confidence = 0.99;
  } else if (r.process->state == ProcessState::ended) {
    c.reason = "its process has ended";
    c.confidence = 0.99;
  } else if (r.silent) {
    c.reason = "its node is silent";
    c.confidence = 0.9;
  } else if (r.process->state == ProcessState::stopped) {
    c.reason = "its process is stopped, by a signal or a debugger";
    c.confidence = 0.99;
  } else if (busy(r)) {
    c.reason = "it is still working";
    if (r.process->step && r.process->step_age_ns)
      c.reason += " in step " + std::to_string(*r.process->step) + ", which started " +
                  humanNs(static_cast<double>(*r.process->step_age_ns)) + " ago";
    c.confidence = 0.7;
  } else if (atFiles(r)) {
    const std::string at = stepText(*r.process);
    c.reason = "its process reads or writes files (" + humanBytes(static_cast<uint64_t>(*r.process->io_bytes_per_s)) +
               "/s) and launches nothing, as if it saved a checkpoint" + (at.empty() ? "" : ": " + at);
    c.confidence = 0.8;
  } else if (busyHost(r)) {
    const std::string at = stepText(*r.process);
    c.reason = "its process is busy on the CPU and launches nothing" + (at.empty() ? "" : ": " + at);
    c.confidence = 0.8;
  } else {
    const std::string at = stepText(*r.process);
    c.reason = "it has not launched it" + (at.empty() ? "" : ": " + at);
  }
  return c;
}

/// All are there and sizes differ: who has one that is not usual, else who differs from most.
void blameSizes(const WaitGraph& graph, const Op& op, const HangContext& context, HangVerdict& verdict) {
  auto usual = context.sizes.find({op.comm, op.op});
  auto known = [&](int64_t bytes) { return usual != context.sizes.end() && usual->second.contains(bytes); };
  size_t most = 0, right = 0;
  for (const auto& [bytes, ranks] : op.by_bytes) {
    most = std::max(most, ranks.size());
    right += known(bytes);
  }
  const auto largest = static_cast<size_t>(std::count_if(
      op.by_bytes.begin(), op.by_bytes.end(), [&](const auto& group) { return group.second.size() == most; }));
  for (const auto& [bytes, ranks] : op.by_bytes) {
    const bool majority = largest == 1 && ranks.size() == most;
    if (right == 1 ? known(bytes) : majority) continue;
    for (size_t r : ranks)
      verdict.culprits.push_back(culprit(
          graph.ranks()[r], "it called it with " + humanBytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes))),
          largest == 1 ? 0.95
          : right == 1 ? 0.8
                       : 0.5));
  }
}

/// All wait for each other. Of the operations that wait for themselves in the end most ranks are in one; who is in
/// another instead is to blame.
void blameCircle(const WaitGraph& graph, const std::vector<const Op*>& reached, const HangContext& context,
                 HangVerdict& verdict) {
  auto leadsBack = [&](const Op* from) {
    std::set<const Op*> seen;
    std::vector<const Op*> open = {from};
    while (!open.empty()) {
      const Op* op = open.back();
      open.pop_back();
      for (size_t m : op->missing)
        for (const Op* next : waitsOf(graph, m)) {
          if (next == from) return true;
          if (seen.insert(next).second) open.push_back(next);
        }
    }
    return false;
  };
  std::vector<const Op*> circle;
  for (const Op* op : reached)
    if (leadsBack(op)) circle.push_back(op);
  if (circle.empty()) return;
  auto usual = [&](const Op* op) { return context.sizes.contains({op->comm, op->op}); };
  const Op* most = *std::max_element(circle.begin(), circle.end(), [&](const Op* a, const Op* b) {
    if (a->entered.size() != b->entered.size()) return a->entered.size() < b->entered.size();
    return usual(a) != usual(b) ? usual(b) : a->since_ns > b->since_ns;
  });
  for (const Op* op : circle) {
    if (op == most) continue;
    for (size_t r : op->waiting) {
      if (std::find(most->missing.begin(), most->missing.end(), r) == most->missing.end()) continue;
      const Rank& rank = graph.ranks()[r];
      const bool tie = op->entered.size() == most->entered.size();
      verdict.culprits.push_back(culprit(rank, "it is in " + opText(graph, *op) + " instead",
                                         !tie                       ? 0.9
                                         : usual(op) != usual(most) ? 0.8
                                                                    : 0.5));
      // As many here as there: nobody can tell who is wrong.
      if (tie && usual(op) == usual(most))
        for (size_t w : most->waiting)
          verdict.culprits.push_back(culprit(graph.ranks()[w], "it is in " + opText(graph, *most) + " instead", 0.5));
    }
  }
}

std::string mismatchText(const WaitGraph& graph, const Op& op) {
  if (op.by_bytes.size() > 1) {
    std::string text = "sizes differ:";
    size_t named = 0;
    for (const auto& [bytes, ranks] : op.by_bytes) {
      if (++named > kMostNamed) break;
      text += " " + humanBytes(static_cast<uint64_t>(bytes)) + " on " + counted(ranks.size(), "rank");
    }
    return text;
  }
  for (size_t m : op.missing)
    for (const Op* other : waitsOf(graph, m))
      if (other->comm == op.comm && other->op != op.op)
        return rankText(graph.ranks()[m]) + " is in " + other->op + " " + std::to_string(other->seq) + " instead";
  return {};
}

std::string culpritsText(const WaitGraph& graph, const std::set<size_t>& ranks) {
  std::string text;
  size_t named = 0;
  for (size_t r : ranks) {
    if (named == kMostNamed) return text + " and " + std::to_string(ranks.size() - named) + " more";
    text += (named++ ? ", " : "") + rankText(graph.ranks()[r]);
  }
  return text;
}

/// Whether all that take part have told something lately: else the one that has not may be the reason.
bool heardOfAll(const WaitGraph& graph, const Op& op) {
  int64_t newest = 0;
  for (const Rank& r : graph.ranks()) newest = std::max(newest, r.at_ns);
  return std::all_of(op.entered.begin(), op.entered.end(),
                     [&](size_t r) { return graph.ranks()[r].silent || newest - graph.ranks()[r].at_ns < kStaleNs; });
}

}  // namespace

void describeHang(const WaitGraph& graph, const std::vector<const Op*>& stuck, const HangContext& context,
                  HangVerdict& verdict) {
  const Roots roots = findRoots(graph, stuck);
  std::vector<const Op*> ops(stuck.begin(), stuck.end());
  // Those the culprits are missing from first, then the oldest.
  auto rooted = [&](const Op* op) {
    return roots.unfinished.contains(op) ||
           std::any_of(op->missing.begin(), op->missing.end(), [&](size_t m) { return roots.ranks.contains(m); });
  };
  std::stable_sort(ops.begin(), ops.end(), [&](const Op* a, const Op* b) {
    if (rooted(a) != rooted(b)) return rooted(a);
    return a->entered.size() != b->entered.size() ? a->entered.size() > b->entered.size() : a->since_ns < b->since_ns;
  });
  verdict.since_ns = ops.front()->since_ns;
  for (const Op* op : ops) verdict.since_ns = std::min(verdict.since_ns, op->since_ns);
  std::set<size_t> waiting;
  for (const Op* op : ops) waiting.insert(op->waiting.begin(), op->waiting.end());
  const std::string held = std::to_string(waiting.size()) +
                           (waiting.size() == 1 ? " rank waits in " : " ranks wait in ") + opText(graph, *ops.front());
  const std::string for_ns = " for " + humanNs(static_cast<double>(ops.front()->waited_ns));

  verdict.state = HangState::hang;
  if (!roots.ranks.empty()) {
    bool all_busy = true;
    verdict.at_files = true;
    for (size_t r : roots.ranks) {
      verdict.culprits.push_back(blame(graph, r));
      verdict.at_files &= atFiles(graph.ranks()[r]) && !busy(graph.ranks()[r]);
      all_busy &= busy(graph.ranks()[r]) || atFiles(graph.ranks()[r]) ||
                  (busyHost(graph.ranks()[r]) && ops.front()->waited_ns < context.host_ns);
    }
    if (all_busy) verdict.state = HangState::slow;
    const std::string& reason = verdict.culprits.front().reason;
    verdict.verdict = culpritsText(graph, roots.ranks) +
                      (roots.ranks.size() == 1 ? " holds up the job: " + reason
                                               : " hold up the job (" + rankText(graph.ranks()[*roots.ranks.begin()]) +
                                                     ": " + reason + ")") +
                      "; " + held + for_ns;
  } else if (!roots.unfinished.empty()) {
    const Op* op = *roots.unfinished.begin();
    for (const Op* u : roots.unfinished)
      if (u->by_bytes.size() > 1) op = u;
    if (op->by_bytes.size() <= 1 && !heardOfAll(graph, *op)) {
      verdict.state = HangState::ok;  // a moment later it is known
      verdict.since_ns = 0;
      return;
    }
    if (op->by_bytes.size() > 1) {
      blameSizes(graph, *op, context, verdict);
      verdict.verdict = "ranks disagree about the size of " + opText(graph, *op) + ": " + mismatchText(graph, *op) +
                        "; " + held + for_ns;
    } else {
      verdict.verdict = "all ranks are in " + opText(graph, *op) +
                        ", which does not end: nobody is missing, suspect a GPU or a link; " + held + for_ns;
      verdict.confidence = 0.5;
    }
  } else {
    blameCircle(graph, roots.reached, context, verdict);
    verdict.verdict = "ranks wait for each other: " +
                      (verdict.culprits.empty()
                           ? held
                           : "rank " + std::to_string(verdict.culprits.front().rank) + " on " +
                                 verdict.culprits.front().node + ": " + verdict.culprits.front().reason + "; " + held) +
                      for_ns;
  }
  for (const Culprit& c : verdict.culprits) verdict.confidence = std::max(verdict.confidence, c.confidence);
  for (const Op* op : ops) {
    if (verdict.communicators.size() == kMostOps) break;
    StuckOp s;
    s.comm = commName(op->comm);
    s.op = op->op;
    s.seq = op->seq;
    s.ranks = op->size;
    for (size_t r : op->entered) s.entered.push_back(graph.ranks()[r].rank);
    for (size_t r : op->missing) s.missing.push_back(graph.ranks()[r].rank);
    std::sort(s.entered.begin(), s.entered.end());
    std::sort(s.missing.begin(), s.missing.end());
    if (!op->counted) s.bytes = op->bytes;
    s.age_s = static_cast<double>(op->waited_ns) * 1e-9;
    s.mismatch = mismatchText(graph, *op);
    verdict.communicators.push_back(std::move(s));
  }
}

}  // namespace tracesmith::analysis::live
