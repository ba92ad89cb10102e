#include "cluster/sdk/trace_contents.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <map>
#include <set>

#include "hardware/topology/links.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

/// Calls visit(rows, number) for every row of a table, with these columns.
template <typename Visit>
Status eachRow(const Reader& reader, const TableInfo& table, const CommonClock* clock, std::vector<int> columns,
               Visit visit) {
  Selection all;
  all.clock = clock;
  return forEachRow(reader, table, all, std::move(columns), [&](const Row& row) {
    visit(static_cast<const BlockRows&>(*row.rows), row.number);
    return Status();
  });
}

template <typename T>
T orZero(int64_t slot) {
  return slot == kNull ? T{} : static_cast<T>(slot);
}

NCCLOpType opTypeOf(std::string_view op) {
  static constexpr std::string_view kOps[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                              "reduce",     "all_to_all", "send",           "recv"};
  const auto found = std::ranges::find(kOps, op);
  return found == std::end(kOps) ? NCCLOpType::Unknown : static_cast<NCCLOpType>(found - std::begin(kOps));
}

NCCLDataType dataTypeOf(std::string_view name) {
  static constexpr std::string_view kTypes[] = {"int8",    "uint8",    "int32",      "uint32",
                                                "int64",   "uint64",   "float16",    "float32",
                                                "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  const auto found = std::ranges::find(kTypes, name);
  return found == std::end(kTypes) ? NCCLDataType::Unknown : static_cast<NCCLDataType>(found - std::begin(kTypes));
}

/// A communicator's name is its number in hex where NCCL gave it; of others the name is hashed.
uint64_t commOf(std::string_view name) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number, 16);
  if (error == std::errc() && end == name.data() + name.size()) return number;
  return std::hash<std::string_view>()(name);
}

const std::vector<int> kOperationColumns = {
    collectives::ts,     collectives::dur,         collectives::op,         collectives::comm,
    collectives::seq,    collectives::node,        collectives::rank,       collectives::peer,
    collectives::bytes,  collectives::elements,    collectives::group_rank, collectives::dtype,
    collectives::device, collectives::group_size,  collectives::stream,     collectives::ts_enqueue,
    collectives::ts_end, collectives::correlation, collectives::nccl_seq};

NCCLOperation operationOf(const BlockRows& rows, uint32_t row) {
  using namespace collectives;
  auto slot = [&](int column) { return rows.slot(column, row); };
  NCCLOperation o;
  o.op_id = orZero<uint64_t>(slot(seq));
  if (slot(nccl_seq) != kNull) o.nccl_seq = static_cast<uint64_t>(slot(nccl_seq));
  o.op_type = opTypeOf(rows.text(op, row));
  o.data_type = dataTypeOf(rows.text(dtype, row));
  o.comm_id = commOf(rows.text(comm, row));
  o.rank = orZero<uint32_t>(slot(group_rank) == kNull ? slot(rank) : slot(group_rank));
  o.world_size = orZero<uint32_t>(slot(group_size));
  o.count = orZero<size_t>(slot(elements));
  o.data_size = orZero<size_t>(slot(bytes));
  o.enqueue_time = orZero<Timestamp>(slot(ts_enqueue));
  o.in_flight = slot(ts) == kNull;
  o.start_time = orZero<Timestamp>(slot(ts));
  o.duration_ns = orZero<uint64_t>(slot(dur));
  o.end_time = o.in_flight ? 0 : o.start_time + o.duration_ns;
  if (slot(peer) != kNull) o.peer_rank = static_cast<int32_t>(slot(peer));
  o.cuda_stream = orZero<uint64_t>(slot(stream));
  o.device_id = orZero<uint32_t>(slot(device));
  o.correlation_id = orZero<uint64_t>(slot(correlation));
  return o;
}

using Gpu = std::pair<std::string, int64_t>;  // node, index

}  // namespace

Result<std::vector<NCCLOperation>> ncclOperations(const Reader& reader, const CommonClock* clock,
                                                  const std::function<bool(uint64_t comm)>& wanted) {
  std::vector<NCCLOperation> all;
  const bool simulated = isSimulated(reader);
  TS_TRY(eachRow(reader, tableOf<CollectiveRow>(), clock, kOperationColumns, [&](const BlockRows& rows, uint32_t row) {
    NCCLOperation o = operationOf(rows, row);
    if (clock && o.enqueue_time != 0)  // starts and ends are on it already
      o.enqueue_time = static_cast<Timestamp>(
          clock->toReference(rows.block(), rows.slot(collectives::node, row), static_cast<int64_t>(o.enqueue_time)));
    o.simulated = simulated;
    if (!wanted || wanted(o.comm_id)) all.push_back(std::move(o));
  }));
  auto when = [](const NCCLOperation& o) {
    return std::pair(o.in_flight, o.in_flight ? o.enqueue_time : o.start_time);
  };
  std::ranges::stable_sort(all, [&](const auto& a, const auto& b) { return when(a) < when(b); });
  return all;
}

Result<GPUTopologyInfo> recordedTopology(const Reader& reader) {
  std::set<Gpu> gpus;
  TS_TRY(eachRow(reader, tableOf<DeviceRow>(), nullptr, {devices::node, devices::device},
                 [&](const BlockRows& rows, uint32_t row) {
                   if (const int64_t index = rows.slot(devices::device, row); index != kNull)
                     gpus.emplace(rows.text(devices::node, row), index);
                 }));
  std::map<Gpu, uint32_t> numbers;
  for (const Gpu& gpu : gpus) numbers.emplace(gpu, static_cast<uint32_t>(numbers.size()));
  GPUTopologyInfo info;
  info.gpu_count = static_cast<uint32_t>(gpus.size());
  std::map<std::pair<uint32_t, uint32_t>, GPULink> found;  // every recording of a node says them again
  TS_TRY(eachRow(reader, tableOf<LinkRow>(), nullptr,
                 {links::node, links::device, links::peer_node, links::peer_device, links::kind, links::count,
                  links::gbps, links::measured_gbps},
                 [&](const BlockRows& rows, uint32_t row) {
                   const std::string node(rows.text(links::node, row)), peer(rows.text(links::peer_node, row));
                   const GPULinkType type = linkTypeOf(rows.text(links::kind, row));
                   if (type == GPULinkType::NVSwitch) info.has_nvswitch = true;
                   const auto a = numbers.find({node, rows.slot(links::device, row)});
                   const auto b = numbers.find({peer.empty() ? node : peer, rows.slot(links::peer_device, row)});
                   if (a == numbers.end() || b == numbers.end()) return;
                   GPULink link;
                   link.gpu_a = std::min(a->second, b->second);
                   link.gpu_b = std::max(a->second, b->second);
                   link.type = type;
                   link.link_count = orZero<uint32_t>(rows.slot(links::count, row));
                   if (const int64_t gbps = rows.slot(links::gbps, row); gbps != kNull)
                     link.bandwidth_gbps = std::bit_cast<double>(gbps);
                   if (const int64_t measured = rows.slot(links::measured_gbps, row); measured != kNull)
                     link.measured_bandwidth = std::bit_cast<double>(measured);
                   found[{link.gpu_a, link.gpu_b}] = link;
                 }));
  for (const auto& [pair, link] : found) {
    info.links.push_back(link);
    info.link_matrix[pair] = info.link_matrix[{pair.second, pair.first}] = link.type;
  }
  return info;
}

Result<std::map<std::string, NodeAggregator::Statistics>> countCapture(const Reader& reader) {
  std::map<std::string, NodeAggregator::Statistics> nodes;
  TS_TRY(eachRow(reader, tableOf<EventRow>(), nullptr, {events::node, events::device},
                 [&](const BlockRows& rows, uint32_t row) {
                   NodeAggregator::Statistics& s = nodes[std::string(rows.text(events::node, row))];
                   const int64_t device = rows.slot(events::device, row);
                   if (device >= 0 && device < std::ssize(s.events_per_gpu)) ++s.events_per_gpu[device];
                 }));
  TS_TRY(eachRow(reader, tableOf<CollectiveRow>(), nullptr, {collectives::node, collectives::bytes},
                 [&](const BlockRows& rows, uint32_t row) {
                   NodeAggregator::Statistics& s = nodes[std::string(rows.text(collectives::node, row))];
                   ++s.nccl_operations;
                   s.nccl_bytes += orZero<uint64_t>(rows.slot(collectives::bytes, row));
                 }));
  return nodes;
}

}  // namespace tracesmith::cluster
