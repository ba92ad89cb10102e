// Which rank waits in which operation for whom, from the newest reports of all nodes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

class WaitGraph {
 public:
  /// A process, or a member of a communicator that nobody reports.
  struct Rank {
    const ProcessReport* process = nullptr;  ///< null: not reported
    std::string node;
    int64_t at_ns = 0;  ///< when its report came, or what it tells was true
    bool silent = false;
    int32_t rank = -1;
    bool gone() const {
      return process && (process->state == ProcessState::dead || process->state == ProcessState::ended);
    }
  };
  /// An operation in which ranks wait.
  struct Op {
    uint64_t comm = 0, seq = 0;
    std::string comm_name, op;
    int32_t peer = -1;  ///< of a send or receive: the other rank (index)
    int32_t size = -1;
    int64_t bytes = 0;
    std::vector<size_t> waiting;      ///< ranks (indices) that run it and wait,
    std::vector<int64_t> waiting_ns;  ///< each for so long
    std::vector<size_t> entered;      ///< that have come to it
    std::vector<size_t> missing;      ///< that have not
    std::map<int64_t, std::vector<size_t>> by_bytes;
    int64_t since_ns = 0;   ///< when the first began to wait
    int64_t waited_ns = 0;  ///< for sure: up to the oldest report of those it takes
    bool first = false;     ///< nothing of this communicator has ended yet
    bool counted = false;   ///< NCCL's own counts tell of it: its size is not known
    bool unseen = false;    ///< when ranks came to it on their GPUs is not known: only when they launched it
  };

  /// `silent_ns`: 0, or the time now where the node is silent. The report must outlive the graph.
  void add(const NodeReport& report, int64_t at_ns, int64_t silent_ns);
  void build();

  const std::vector<Rank>& ranks() const { return ranks_; }
  const std::vector<Op>& ops() const { return ops_; }
  /// Operations a rank waits in, as indices of ops().
  const std::vector<size_t>& waitsIn(size_t rank) const { return waits_[rank]; }

 private:
  struct Member {
    size_t rank;
    const CommState* state;
  };
  /// What is numbered by itself: a kind of operation of a communicator, or what one of its members sends to another.
  struct Kind {
    uint64_t comm = 0;
    std::string op;
    int32_t from = -1, to = -1;  // places in the communicator
    auto operator<=>(const Kind&) const = default;
  };
  struct Key {
    Kind kind;
    uint64_t seq = 0;
    auto operator<=>(const Key&) const = default;
  };

  Key keyOf(size_t rank, const InFlight& f) const;
  bool hasEnded(const Key& key) const;
  bool hasSent(const Key& key) const;
  void findEnded();
  void findUnseen();
  void findPassed();
  void findHeads(size_t rank);
  bool isHead(size_t rank, const InFlight& f) const;
  bool standsIn(size_t rank, const InFlight& f) const;
  bool arrived(const Member& member, const Key& key) const;
  size_t unknownRank(uint64_t comm, int32_t group_rank, int32_t rank);
  void addWaiting(Op& op, size_t rank, const InFlight& f) const;
  void addCollective(const Key& key, const std::vector<std::pair<size_t, const InFlight*>>& waiting);
  void addTransfer(size_t rank, const InFlight& f);
  void measure(Op& op) const;

  std::vector<Rank> ranks_;
  int64_t now_ns_ = 0;
  std::map<uint64_t, std::vector<Member>> comms_;
  std::map<Kind, uint64_t> ended_;   // the last number that ended, on any rank
  std::map<Kind, uint64_t> sent_;    // the last number that the sender of a receive has seen end
  std::map<Kind, uint64_t> passed_;  // the last number that must have ended
  std::map<std::pair<uint64_t, int32_t>, size_t> unknown_;
  std::vector<std::vector<const InFlight*>> heads_;  // by rank: the operations its streams are at
  std::vector<const InFlight*> oldest_;              // by rank: what it launched first and has not ended
  std::vector<Op> ops_;
  std::vector<std::vector<size_t>> waits_;
};

}  // namespace tracesmith::analysis::live
