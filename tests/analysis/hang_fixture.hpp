// Four ranks whose reports a test writes, and the watcher that gets them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analysis/live/watcher.hpp"

namespace tracesmith::analysis::live {

constexpr int64_t kS = 1'000'000'000;
constexpr uint64_t kWorld = 0xabc;

/// Four ranks on two nodes, all in the same all_reduce of one communicator unless a test says otherwise.
class Hang : public ::testing::Test {
 protected:
  Hang() {
    for (int r = 0; r < 4; ++r) {
      ProcessReport& p = nodes_[r / 2].processes.emplace_back();
      p.pid = 100 + r;
      p.rank = r;
      p.world_size = 4;
      p.quiet_ns = 0;
      p.comms.push_back({kWorld, "world", r, 4, 0, {{"all_reduce", 10, 10}}, {}});
    }
    nodes_[0].node = "a";
    nodes_[1].node = "b";
  }
  ProcessReport& rank(int r) { return nodes_[r / 2].processes[static_cast<size_t>(r % 2)]; }
  /// A rank runs an operation that does not end.
  void enter(int r, const std::string& op = "all_reduce", uint64_t seq = 11, int64_t bytes = 4096) {
    ProcessReport& p = rank(r);
    CommState& c = p.comms[0];
    auto found = std::find_if(c.ops.begin(), c.ops.end(), [&](const OpProgress& o) { return o.op == op; });
    if (found == c.ops.end()) found = c.ops.insert(found, {op, seq, {}});
    found->entered = seq;
    p.in_flight.push_back({op, kWorld, seq, -1, bytes, 7, 0, 0, 0});
  }
  /// A rank sends to another or receives from it, each in a launch of its own.
  void transfer(int r, const std::string& op, uint64_t seq, int peer) {
    ProcessReport& p = rank(r);
    p.in_flight.push_back({op, kWorld, seq, peer, 64, 9, static_cast<uint32_t>(p.in_flight.size()), 0, 0});
  }
  /// Lets time pass: every second a report of every node, in which what stands still gets older.
  HangVerdict pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ns_ += kS;
      for (NodeReport& node : nodes_) {
        for (ProcessReport& p : node.processes) {
          for (InFlight& f : p.in_flight) f.age_ns += kS, f.wait_ns += kS;
          if (p.quiet_ns && !busy_.contains(p.rank)) *p.quiet_ns += kS;
        }
        if (!silent_.contains(node.node)) watcher_.take(node, now_ns_);
      }
      for (Alert& a : watcher_.look(now_ns_)) alerts_.push_back(std::move(a));
    }
    return watcher_.verdict();
  }

  NodeReport nodes_[2];
  std::set<int> busy_;            // their GPUs work
  std::set<std::string> silent_;  // nodes
  Watcher watcher_;
  std::vector<Alert> alerts_;
  int64_t now_ns_ = 1000 * kS;
};

}  // namespace tracesmith::analysis::live
