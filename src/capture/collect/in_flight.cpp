#include "capture/collect/in_flight.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "capture/collect/nccl_join.hpp"
#include "model/operation.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::capture {

using ring::Kind;
using ring::Record;

std::string ncclCommName(uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

namespace {

/// Communicator, operation, number; of a send also from whom to whom.
using Operation = std::tuple<std::string, std::string, uint64_t, int32_t, int32_t>;

bool isStopped(int64_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');  // the name may contain anything
  return name_end != std::string::npos && name_end + 2 < text.size() && (text[name_end + 2] | 32) == 't';
}

/// What has its own numbering: communicator and operation; of a send or receive also from whom to whom.
using Numbered = std::tuple<uint64_t, std::string, int32_t, int32_t>;
/// How many of a kind each process has launched.
using Entered = std::map<Numbered, std::map<int64_t, uint64_t>>;

Numbered kindOf(const ring::OperationRecord& r, const std::string& op) {
  if (!r.pair) return {r.comm, op, -1, -1};
  return op == "send" ? Numbered{r.comm, "pair", r.rank, r.peer} : Numbered{r.comm, "pair", r.peer, r.rank};
}

struct Found {
  InFlight operation;
  bool unseen;  // launched while the GPU's work was not recorded: its end would not be seen
  Numbered kind;
};

/// What one process waits for; notes in `ended` what it has seen end that is over for others too: what it received was
/// sent.
void look(const ring::RingReader& reader, std::set<Operation>& ended, Entered& entered, std::vector<Found>& all) {
  struct Seen {
    uint32_t lane;
    Record record;
  };
  std::vector<Seen> records;
  uint64_t oldest_gpu = UINT64_MAX;
  reader.snapshot([&](uint32_t lane, const Record& r) {
    if (lane == 0) oldest_gpu = std::min(oldest_gpu, r.start);
    records.push_back({lane, r});
  });
  // It is not known whether operations older than the GPU's lane have ended.
  if (!reader.wrapped(0)) oldest_gpu = 0;
  NcclJoin join;
  const ring::RingHeader& h = reader.header();
  const int64_t pid = reader.shownPid();
  const bool stopped = isStopped(reader.process().value_or(0));
  auto add = [&](const ring::OperationRecord& r, uint32_t stream, bool unseen) {
    InFlight f;
    f.node.assign(h.host, ::strnlen(h.host, sizeof h.host));
    f.pid = pid;
    f.rank = h.rank.load();
    f.op = model::opNameOf(reader.string(r.function));
    f.comm = ncclCommName(r.comm);
    f.seq = r.sequence;
    f.group_rank = r.rank;
    f.group_size = r.ranks ? static_cast<int32_t>(r.ranks) : -1;
    f.peer = r.peer;
    f.bytes = model::messageBytes(model::opKind(f.op), nccl::bytesOf(r), f.group_size);
    f.stream = stream;
    f.enqueue_ns = r.start;
    f.simulated = h.simulated;
    f.stopped = stopped;
    const Numbered kind = kindOf(r, f.op);
    all.push_back({std::move(f), unseen, kind});
  };
  auto done = [&](const NcclJoin::Operation& o, const ring::KernelRecord* kernel) {
    const ring::OperationRecord& r = o.record;
    const std::string op = model::opNameOf(reader.string(r.function));
    if (kernel && !r.pair && endsTogether(model::opKind(op)))
      ended.insert({ncclCommName(r.comm), op, r.sequence, -1, -1});
    if (kernel && op == "recv") ended.insert({ncclCommName(r.comm), "send", r.sequence, r.peer, r.rank});
    if (!kernel && !r.captured && r.start >= join.gpu_off_ns) add(r, 0, true);
  };
  auto text = [&](uint32_t id) { return reader.string(id); };
  for (const Seen& s : records) {
    const Record& r = s.record;
    if (r.kind == Kind::nccl_launch && r.start >= oldest_gpu) {
      join.launch(s.lane, launchOf(r), 0, done);
    } else if (isOperation(r.kind) && r.start >= oldest_gpu) {
      const ring::OperationRecord o = operationOf(r);
      uint64_t& launched = entered[kindOf(o, model::opNameOf(reader.string(o.function)))][pid];
      if (o.sequence != ring::kUnknown) launched = std::max(launched, o.sequence + 1);
      join.operation(s.lane, o, 0, done);
    } else if (r.kind == Kind::gpu_on || r.kind == Kind::gpu_off) {
      join.gpu(gpuOnOf(r), text, done);
    } else if (r.kind == Kind::kernel) {
      join.kernel(kernelOf(r), 0, text, done);
    } else if (r.kind == Kind::graph) {
      join.graph(graphOf(r), 0);
    }
  }
  join.settle(text, done);
  for (const auto& [id, stream] : join.streams)
    for (const NcclJoin::Launch* launch : join.inFlight(stream, id))
      for (const NcclJoin::Operation& o : launch->operations) add(o.record, id, false);
  for (const GraphJoin::InFlight& f : join.replaysInFlight(text)) add(f.operation->record, f.stream, false);
}

}  // namespace

std::vector<InFlight> operationsInFlight(const std::vector<std::unique_ptr<ring::RingReader>>& rings) {
  std::set<Operation> ended;
  Entered entered;
  std::vector<Found> found;
  for (const auto& ring : rings) look(*ring, ended, entered, found);
  // Where the end would not be seen, one thing is certain: what another process here has not launched has not ended.
  auto missing = [&](const Found& f) {
    const std::map<int64_t, uint64_t>& processes = entered[f.kind];
    return std::any_of(processes.begin(), processes.end(), [&](const auto& p) { return p.second <= f.operation.seq; });
  };
  std::vector<InFlight> all;
  for (Found& f : found) {
    const InFlight& o = f.operation;
    const bool pair = o.peer >= 0;
    if (ended.contains({o.comm, o.op, o.seq, pair ? o.group_rank : -1, pair ? o.peer : -1})) continue;
    if (!f.unseen || missing(f)) all.push_back(std::move(f.operation));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const InFlight& a, const InFlight& b) { return a.enqueue_ns < b.enqueue_ns; });
  return all;
}

}  // namespace tracesmith::capture
