#include "capture/collect/in_flight.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <tuple>

#include "capture/collect/nccl_join.hpp"
#include "model/operation.hpp"

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

int32_t groupRank(const Record& r) { return r.stream ? static_cast<int32_t>(r.stream - 1) : -1; }

bool isStopped(int64_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');  // the name may hold anything
  return name_end != std::string::npos && name_end + 2 < text.size() && (text[name_end + 2] | 32) == 't';
}

/// What one process waits for; notes in `ended` what it has seen end that is over for others too: what it received was
/// sent.
void look(const ring::RingReader& reader, std::set<Operation>& ended, std::vector<InFlight>& all) {
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
  // Of operations older than what the GPU's lane still holds nobody knows whether they ended.
  if (!reader.wrapped(0)) oldest_gpu = 0;
  NcclJoin join;
  auto done = [&](const NcclJoin::Operation& o, const Record* kernel) {
    const Record& r = o.record;
    const std::string op = model::opNameOf(reader.string(r.name));
    if (kernel && r.kind == Kind::collective && endsTogether(model::opKind(op)))
      ended.insert({ncclCommName(r.arg[0]), op, r.arg[1], -1, -1});
    if (kernel && op == "recv") ended.insert({ncclCommName(r.arg[0]), "send", r.arg[1], peerOf(r), groupRank(r)});
  };
  for (const Seen& s : records) {
    const Record& r = s.record;
    if (r.kind == Kind::nccl_launch && r.start >= oldest_gpu)
      join.launch(s.lane, r);
    else if ((r.kind == Kind::collective || r.kind == Kind::p2p) && r.start >= oldest_gpu)
      join.operation(s.lane, r, 0, done);
    else if (r.kind == Kind::gpu_on)
      join.gpu_on_ns = r.start;
    else if (r.kind == Kind::kernel)
      join.kernel(
          r, [&](uint32_t id) { return reader.string(id); }, done);
  }
  const ring::RingHeader& h = reader.header();
  const bool stopped = isStopped(h.writer_pid);
  for (const auto& [stream, queue] : join.launches)
    for (const NcclJoin::Launch& launch : queue)
      for (const NcclJoin::Operation& o : launch.operations) {
        const Record& r = o.record;
        if (launch.end < join.gpu_on_ns) continue;  // launched while nobody recorded
        ring::CollectiveInfo info;
        std::memcpy(&info, &r.arg[3], sizeof info);
        InFlight f;
        f.node.assign(h.host, ::strnlen(h.host, sizeof h.host));
        f.pid = h.pid;
        f.rank = h.rank.load();
        f.op = model::opNameOf(reader.string(r.name));
        f.comm = ncclCommName(r.arg[0]);
        f.seq = r.arg[1];
        f.group_rank = groupRank(r);
        f.group_size = r.correlation ? static_cast<int32_t>(r.correlation) : -1;
        f.peer = peerOf(r);
        f.bytes = model::messageBytes(model::opKind(f.op), ncclBytes(r.arg[2], info.datatype), f.group_size);
        f.stream = stream;
        f.enqueue_ns = r.start;
        f.simulated = h.simulated;
        f.stopped = stopped;
        all.push_back(std::move(f));
      }
}

}  // namespace

std::vector<InFlight> operationsInFlight(const std::vector<std::unique_ptr<ring::RingReader>>& rings) {
  std::set<Operation> ended;
  std::vector<InFlight> all;
  for (const auto& ring : rings) look(*ring, ended, all);
  std::erase_if(all, [&](const InFlight& f) {
    const bool pair = f.peer >= 0;
    return ended.contains({f.comm, f.op, f.seq, pair ? f.group_rank : -1, pair ? f.peer : -1});
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const InFlight& a, const InFlight& b) { return a.enqueue_ns < b.enqueue_ns; });
  return all;
}

}  // namespace tracesmith::capture
