#include "cli/live_source.hpp"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/count.hpp"
#include "capture/collect/in_flight.hpp"
#include "cli/ring_folder.hpp"
#include "process/environment.hpp"

namespace tracesmith::cli {

using model::LiveCells;
using Kind = Target::Meaning::Kind;

void LiveSource::startStatement() {
  std::lock_guard lock(mutex_);
  listed_.reset();
  stacks_.reset();
  rows_.clear();
  problems_.clear();
}

std::vector<std::string> LiveSource::problems() const {
  std::lock_guard lock(mutex_);
  return problems_;
}

Result<std::vector<LiveCells>> LiveSource::rows(const std::string& table) {
  std::lock_guard lock(mutex_);
  if (const auto known = rows_.find(table); known != rows_.end()) return known->second;
  Result<Rows> rows = table == "processes"  ? processRows()
                      : table == "threads"  ? threadRows()
                      : table == "stacks"   ? frameRows()
                      : table == "inflight" ? operationRows()
                      : table == "nodes"    ? nodeRows()
                                            : variableRows();
  if (!rows) return rows;
  if (strict_ && !problems_.empty()) return Status::unavailable(problems_.front());
  return rows_[table] = std::move(*rows);
}

/// Asked once for a statement.
Result<const model::ClusterProcesses*> LiveSource::processes(bool stacks) {
  std::optional<model::ClusterProcesses>& known = stacks ? stacks_ : listed_;
  if (!known) {
    model::ProcessQuery query;
    query.stacks = stacks;
    Result<model::ClusterProcesses> answer = target_.ask(query);
    if (!answer) return answer.status();
    for (const model::NodeProcesses& node : answer->nodes) {
      const std::string where = node.node.empty() ? "" : node.node + ": ";
      auto tell = [&](const std::string& text) {
        if (std::find(problems_.begin(), problems_.end(), where + text) == problems_.end())
          problems_.push_back(where + text);
      };
      if (!node.problem.empty()) tell(node.problem);
      if (node.not_permitted > 0)
        tell(counted(node.not_permitted, "process", "processes") + " may not be read: run as root");
    }
    known = std::move(*answer);
  }
  return &*known;
}

Result<LiveSource::Rows> LiveSource::processRows() {
  Result<const model::ClusterProcesses*> answer = processes(false);
  if (!answer) return answer.status();
  Rows rows;
  for (const model::NodeProcesses& node : (*answer)->nodes)
    for (const model::ProcessEntry& p : node.processes) rows.push_back(cellsOf(model::LiveProcessRow{node.node, &p}));
  return rows;
}

Result<LiveSource::Rows> LiveSource::threadRows() {
  Result<const model::ClusterProcesses*> answer = processes(true);
  if (!answer) return answer.status();
  Rows rows;
  for (const model::NodeProcesses& node : (*answer)->nodes)
    for (const model::Stacks& p : node.stacks)
      for (const model::ThreadStack& t : p.threads) {
        int64_t depth = 0;
        for (const model::StackFrame& f : t.frames) depth += 1 + static_cast<int64_t>(f.more);
        rows.push_back(cellsOf(model::LiveThreadRow{node.node, p.pid, p.rank, &t, depth}));
      }
  return rows;
}

Result<LiveSource::Rows> LiveSource::frameRows() {
  Result<const model::ClusterProcesses*> answer = processes(true);
  if (!answer) return answer.status();
  Rows rows;
  for (const model::NodeProcesses& node : (*answer)->nodes)
    for (const model::Stacks& p : node.stacks) {
      int64_t thread = 0;
      for (const model::ThreadStack& t : p.threads) {
        int64_t frame = 0;
        for (const model::StackFrame& f : t.frames) {
          rows.push_back(cellsOf(model::LiveFrameRow{node.node, p.pid, p.rank, thread, t.tid, frame, &f}));
          frame += 1 + static_cast<int64_t>(f.more);
        }
        ++thread;
      }
    }
  return rows;
}

LiveSource::Rows LiveSource::operationsHere() const {
  const Result<Target::Meaning> meaning = target_.meaning();
  std::vector<std::unique_ptr<ring::RingReader>> followed;
  if (const Result<std::string> base = ring::ringFolder())
    for (const std::string& path : ringsBelow(*base)) {
      Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
      if (reader && (*reader)->alive()) followed.push_back(std::move(*reader));
    }
  const std::vector<capture::InFlight> all = capture::operationsInFlight(followed);
  const uint64_t now = rawClock();
  Rows rows;
  for (const capture::InFlight& f : all) {
    if (meaning && meaning->kind == Kind::process && f.pid != meaning->number) continue;
    const auto age = static_cast<int64_t>(now > f.enqueue_ns ? now - f.enqueue_ns : 0);
    rows.push_back(cellsOf(model::LiveOperationRow{"", f.pid, f.rank, f.op, f.comm, static_cast<int64_t>(f.seq),
                                                   f.group_rank, f.group_size, f.peer, f.bytes, f.stream, age}));
  }
  return rows;
}

Result<LiveSource::Rows> LiveSource::operationsOfCluster() {
  const Result<Target::Meaning> meaning = target_.meaning();
  Result<std::unique_ptr<cluster::Client>> client = target_.connect();
  if (!client) return client.status();
  const Result<model::LiveStatus> live = (*client)->live();
  if (!live) return live.status();
  Rows rows;
  for (const model::LiveNode& node : live->nodes) {
    if (meaning->kind == Kind::node && node.report.node != meaning->name) continue;
    for (const model::ProcessReport& p : node.report.processes) {
      if (meaning->kind == Kind::rank && p.rank != meaning->number) continue;
      for (const model::InFlight& f : p.in_flight) {
        model::LiveOperationRow row{node.report.node,
                                    p.pid,
                                    p.rank,
                                    f.op,
                                    capture::ncclCommName(f.comm),
                                    static_cast<int64_t>(f.seq),
                                    -1,
                                    -1,
                                    f.peer,
                                    f.bytes,
                                    f.stream,
                                    f.age_ns + static_cast<int64_t>(node.age_s * 1e9)};
        for (const model::CommState& c : p.comms)
          if (c.comm == f.comm) std::tie(row.group_rank, row.group_size) = std::pair(c.group_rank, c.size);
        rows.push_back(cellsOf(row));
      }
    }
  }
  return rows;
}

Result<LiveSource::Rows> LiveSource::operationRows() {
  if (target_.local()) return operationsHere();
  const Result<Target::Meaning> meaning = target_.meaning();
  if (!meaning) return meaning.status();
  if (meaning->kind == Kind::agent)
    return Status::unsupported("live.inflight needs a master (-t node:NAME) or this machine: an agent tells only them");
  return operationsOfCluster();
}

Result<LiveSource::Rows> LiveSource::nodeRows() {
  const Result<Target::Meaning> meaning = target_.meaning();
  if (!meaning) return meaning.status();
  if (target_.local() || meaning->kind == Kind::agent)
    return Status::unsupported("live.nodes needs a master: use -t all");
  Result<std::unique_ptr<cluster::Client>> client = target_.connect();
  if (!client) return client.status();
  const Result<model::ClusterStatus> status = (*client)->status();
  if (!status) return status.status();
  Rows rows;
  for (const model::NodeStatus& node : status->nodes) {
    if (meaning->kind == Kind::node && node.node != meaning->name) continue;
    model::LiveNodeRow row;
    row.of = &node;
    if (node.clock) row.clock_bound_ns = node.clock->bound_ns;
    rows.push_back(cellsOf(row));
  }
  return rows;
}

/// Environments hold secrets: they are never asked over the network. The kernel says whose may be read.
Result<LiveSource::Rows> LiveSource::variableRows() {
  if (!target_.local()) return Status::unsupported("live.env is about processes of this machine: use -t PID there");
  Result<const model::ClusterProcesses*> answer = processes(false);
  if (!answer) return answer.status();
  Rows rows;
  uint64_t refused = 0;
  for (const model::ProcessEntry& p : (*answer)->nodes[0].processes) {
    if (p.simulated) continue;
    Result<std::vector<process::Variable>> variables = process::environmentOf(target_.places.root, p.pid);
    refused += !variables && variables.status().code() != Code::kNotFound;
    if (!variables) continue;
    for (process::Variable& v : *variables)
      rows.push_back(cellsOf(model::LiveVariableRow{p.pid, p.rank, std::move(v.name), std::move(v.value), v.masked}));
  }
  if (refused > 0)
    problems_.push_back("the environment of " + counted(refused, "process", "processes") +
                        " may not be read: run as root");
  return rows;
}

}  // namespace tracesmith::cli
