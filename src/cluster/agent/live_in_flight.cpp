// What a process waits for, as its ring tells.
#include <algorithm>

#include "capture/collect/in_flight.hpp"
#include "cluster/agent/live_rings.hpp"
#include "model/communication.hpp"
#include "model/operation.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;
using capture::NcclJoin;
using ring::OperationRecord;

namespace {

constexpr uint32_t kGraphStreams = 1u << 30;  // streams as far as graphs are launched on them
constexpr size_t kMostInFlight = 256;         // as many as a report may have

}  // namespace

InFlight RingFollower::inFlight(uint64_t now, const OperationRecord& r, const CommState* state) const {
  InFlight f;
  f.op = model::opNameOf(ring_->string(r.function));
  f.comm = r.comm;
  f.seq = r.sequence;
  f.peer = r.peer;
  f.bytes = model::messageBytes(model::opKind(f.op), nccl::bytesOf(r), state ? state->size : -1);
  f.age_ns = static_cast<int64_t>(now > r.start ? now - r.start : 0);
  return f;
}

/// Those whose end nobody sees: on which streams is not told, so each communicator has one.
void RingFollower::addUnseen(uint64_t now, ProcessReport& report) const {
  uint32_t stream = UINT32_MAX;
  auto unseen = unseen_;
  eachUnrecorded([&](const OperationRecord& r) {
    if (r.launch != 0 && times_.of(r)) return;
    unseen[r.comm].push_back(r);
    if (unseen[r.comm].size() > kMostPerStream) unseen[r.comm].pop_front();
  });
  for (const auto& [comm, last] : unseen) {
    const auto state = std::find_if(report.comms.begin(), report.comms.end(),
                                    [comm = comm](const CommState& c) { return c.comm == comm; });
    uint32_t before = 0;
    for (const OperationRecord& r : last) {
      InFlight f = inFlight(now, r, state == report.comms.end() ? nullptr : &*state);
      f.stream = stream;
      f.before = before++;
      f.wait_ns = f.before == 0 ? f.age_ns : 0;
      f.unseen = true;
      report.in_flight.push_back(std::move(f));
    }
    --stream;
  }
}

void RingFollower::addInFlight(uint64_t now, ProcessReport& report) const {
  addUnseen(now, report);
  auto add = [&](const OperationRecord& r, uint32_t stream, uint32_t before, size_t& told) {
    CommState* state = nullptr;
    for (CommState& c : report.comms)
      if (c.comm == r.comm) state = &c;
    if (state) ++state->in_flight;
    if (++told > kMostPerStream) return;
    InFlight f = inFlight(now, r, state);
    f.stream = stream;
    f.before = before;
    auto last = stream_end_.find(stream);
    const uint64_t since = std::max(r.start, last == stream_end_.end() ? 0 : last->second);
    f.wait_ns = before == 0 ? static_cast<int64_t>(now > since ? now - since : 0) : 0;
    report.in_flight.push_back(std::move(f));
  };
  for (const auto& [stream, state_of] : join_.streams) {
    uint32_t before = 0;
    size_t told = 0;
    for (const NcclJoin::Launch* launch : join_.inFlight(state_of, stream)) {
      if (launch->operations.empty()) continue;
      for (const NcclJoin::Operation& o : launch->operations) add(o.record, stream, before, told);
      ++before;
    }
  }
  // Of the operations of a graph that has not ended the first are waited for; a graph goes by a stream of its own.
  std::map<uint32_t, std::pair<uint32_t, size_t>> told;
  for (const auto& f : join_.replaysInFlight([this](uint32_t id) { return ring_->string(id); })) {
    auto& [before, count] = told[f.stream];
    add(f.operation->record, kGraphStreams | f.stream, before++, count);
  }
  if (report.in_flight.size() > kMostInFlight) {
    report.left_out += report.in_flight.size() - kMostInFlight;
    report.in_flight.resize(kMostInFlight);
  }
}

}  // namespace tracesmith::cluster
