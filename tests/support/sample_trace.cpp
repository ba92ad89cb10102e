#include "support/sample_trace.hpp"

#include <gtest/gtest.h>
#include <cmath>

#include "support/process.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {
namespace {

using namespace trace;

constexpr int64_t kUs = 1000;

/// Appends rows of one rank.
class Rank {
 public:
  Rank(Writer& writer, Appender& appender, SampleCounts& counts, int rank)
      : writer_(writer),
        appender_(appender),
        counts_(counts),
        rank_(rank),
        pid_(kSamplePid + rank),
        node_(writer.string(rank == 0 ? "node-a" : "node-b")),
        correlation_(100 * (rank + 1)) {}

  template <typename Row>
  void add(Row row) {
    if constexpr (requires { row.node; }) row.node = node_;
    if constexpr (requires { row.rank; }) row.rank = rank_;
    if constexpr (requires { row.pid; })
      if (row.pid == kNull) row.pid = pid_;
    Status s = appender_.append(row);
    ASSERT_TRUE(s) << s.message();
  }

  EventRow host(EventType type, const std::string& name, int64_t ts, int64_t dur, int64_t thread = 0) {
    EventRow e;
    e.type = static_cast<int64_t>(type);
    e.name = writer_.string(name);
    e.ts = ts;
    e.dur = dur;
    e.tid = pid_ + thread;
    return e;
  }

  EventRow device(EventType type, const std::string& name, int64_t ts, int64_t dur, int64_t stream) {
    EventRow e = host(type, name, ts, dur);
    e.tid = kNull;
    e.device = rank_;
    e.stream = stream;
    return e;
  }

  void event(const EventRow& e) {
    ++counts_.events;
    if (e.type == static_cast<int64_t>(EventType::kernel)) ++counts_.kernels;
    if (e.type == static_cast<int64_t>(EventType::memcpy)) ++counts_.copies;
    add(e);
  }

  /// A launch on the main thread and the kernel it starts.
  void launched(EventRow kernel, int64_t launch_ts, int64_t step) {
    EventRow launch = host(EventType::runtime, "cudaLaunchKernel", launch_ts, 6 * kUs);
    launch.correlation = kernel.correlation = ++correlation_;
    launch.step = kernel.step = step;
    launch.external_id = kernel.external_id = 7;
    launch.args = appender_.text(R"({"cbid":211})");
    ++counts_.launches;
    event(launch);
    kernel.launch = writer_.launch({128, 1, 1, 256, 2, 1, 40, 0, 4096});
    kernel.context = 1;
    kernel.args = appender_.text(R"({"queued":0,"est. achieved occupancy %":93})");
    event(kernel);
  }

  void flow(int64_t id, const char* phase, int64_t ts, int64_t thread) {
    FlowRow f;
    f.ts = ts;
    f.tid = pid_ + thread;
    f.id = id;
    f.kind = writer_.string("fwdbwd");
    f.phase = writer_.string(phase);
    ++counts_.flows;
    add(f);
  }

  void step(int64_t n, int64_t t);
  void samples(int64_t t);
  void describe();

 private:
  Writer& writer_;
  Appender& appender_;
  SampleCounts& counts_;
  int rank_;
  int64_t pid_, node_, correlation_;
};

void Rank::step(int64_t n, int64_t t) {
  const std::string name = "ProfilerStep#" + std::to_string(n);
  StepRow row;
  row.ts = t;
  row.dur = 900 * kUs;
  row.step = n;
  row.name = writer_.string(name);
  ++counts_.steps;
  add(row);

  event(host(EventType::annotation, name, t, 900 * kUs));
  EventRow forward = host(EventType::cpu_op, "aten::mm", t + 5 * kUs, 40 * kUs);
  forward.external_id = 7;
  forward.args = appender_.text(R"({"Input Dims":[[8,8],[8,8]],"Sequence number":3})");
  event(forward);
  event(host(EventType::python, "train.py(12): step", t + 1 * kUs, 890 * kUs));
  event(device(EventType::gpu_annotation, name, t + 20 * kUs, 850 * kUs, 7));
  launched(device(EventType::kernel, "void gemm<float, 128>(float const*, float*)", t + 20 * kUs, 200 * kUs, 7),
           t + 10 * kUs, n);
  // The next two end where another begins, and overlap without nesting.
  launched(device(EventType::kernel, "void relu<float>(float*)", t + 220 * kUs, 100 * kUs, 7), t + 50 * kUs, n);
  launched(device(EventType::kernel, "void softmax<float>(float*)", t + 700 * kUs, 100 * kUs, 7), t + 60 * kUs, n);
  launched(device(EventType::kernel, "void dropout<float>(float*)", t + 750 * kUs, 100 * kUs, 7), t + 70 * kUs, n);

  const char* nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
  launched(device(EventType::kernel, nccl, t + 150 * kUs, 400 * kUs, 20), t + 80 * kUs, n);
  CollectiveRow c;
  c.ts = t + 150 * kUs;
  c.dur = 400 * kUs;
  c.op = writer_.string("all_reduce");
  c.comm = writer_.string("default_pg");
  c.seq = n;
  c.group_rank = rank_;
  c.group_size = kSampleRanks;
  c.bytes = 4 << 20;
  c.elements = 1 << 20;
  c.dtype = writer_.string("float32");
  c.algo = writer_.string("ring");
  c.device = rank_;
  c.stream = 20;
  c.correlation = correlation_;
  c.step = n;
  c.name = writer_.string(nccl);
  ++counts_.collectives;
  add(c);
  ProxyOpRow p;
  p.ts = t + 160 * kUs;
  p.dur = 300 * kUs;
  p.comm = c.comm;
  p.seq = n;
  p.channel = 0;
  p.peer = 1 - rank_;
  p.direction = writer_.string("send");
  p.bytes = 2 << 20;
  add(p);

  EventRow call = host(EventType::driver, "cuMemcpyHtoDAsync_v2", t + 580 * kUs, 8 * kUs);
  EventRow copy = device(EventType::memcpy, "Memcpy HtoD (Pageable -> Device)", t + 600 * kUs, 50 * kUs, 7);
  call.correlation = copy.correlation = ++correlation_;
  copy.bytes = 4 << 20;
  ++counts_.launches;
  event(call);
  event(copy);
  EventRow set = device(EventType::memset, "Memset (Device)", t + 655 * kUs, 0, 7);  // as short as can be
  set.bytes = 256;
  event(set);
  event(host(EventType::sync, "cudaDeviceSynchronize", t + 600 * kUs, 290 * kUs));
  event(host(EventType::cpu_op, "autograd::engine::evaluate_function: MmBackward0", t + 400 * kUs, 120 * kUs, 1));
  flow(n + 1, "start", t + 5 * kUs, 0);
  flow(n + 1, "end", t + 400 * kUs, 1);
  EventRow mark = host(EventType::marker, "checkpoint", t + 895 * kUs, 0);
  mark.dur = kNull;
  event(mark);
  samples(t);
}

void Rank::samples(int64_t t) {
  for (int i = 0; i < 2; ++i) {
    MetricRow m;
    m.ts = t + i * 500 * kUs;
    m.device = rank_;
    m.name = writer_.string("power_watts");
    m.value = real(350.5 + i);
    m.unit = writer_.string("W");
    ++counts_.metrics;
    add(m);
  }
  MetricRow host;
  host.ts = t;
  host.name = writer_.string("cpu_percent");
  host.value = real(12.25);
  ++counts_.metrics;
  add(host);
  CounterRow c;
  c.ts = t + 450 * kUs;
  c.name = writer_.string("GPU memory");
  c.series = writer_.string("allocated");
  c.value = real(1e9);
  ++counts_.counters;
  add(c);
}

void Rank::describe() {
  NodeRow node;
  node.hostname = node_;
  node.cpus = 64;
  node.gpus = 2;
  add(node);
  DeviceRow d;
  d.device = rank_;
  d.name = writer_.string("NVIDIA H100 80GB HBM3");
  d.vendor = writer_.string("NVIDIA");
  d.memory = 80'000'000'000;
  d.cc_major = 9;
  d.cc_minor = 0;
  d.sms = 132;
  d.warp = 32;
  d.args = appender_.text(R"({"maxThreadsPerBlock":1024})");
  add(d);
  ProcessRow p;
  p.world_size = kSampleRanks;
  p.local_rank = 0;
  p.name = writer_.string("python3");
  p.args = appender_.text(R"({"backend":"nccl","nccl_version":"2.21.5"})");
  add(p);
  for (int64_t thread = 0; thread < 2; ++thread) {
    ThreadRow t;
    t.tid = pid_ + thread;
    t.name = writer_.string(thread == 0 ? "main" : "autograd \"0\"");
    add(t);
  }
  GroupRow g;
  g.comm = writer_.string("default_pg");
  g.description = writer_.string("default group");
  g.backend = writer_.string("cuda:nccl");
  g.size = kSampleRanks;
  g.ranks = appender_.text("[0,1]");
  add(g);
  ClockRow c;
  c.ts_from = kSampleStart;
  c.offset_ns = rank_ == 0 ? 0 : -1000;
  c.drift_ppm = real(rank_ == 0 ? 0 : 0.5);
  c.bound_ns = 250;
  c.method = writer_.string("exchange");
  c.reference = writer_.string("node-a");
  add(c);
  if (rank_ != 0) return;
  LossRow l;
  l.ts = kSampleStart + 300 * kUs;
  l.cause = writer_.string("ring full");
  l.count = 12;
  l.detail = appender_.text("12 records were dropped while the disk was slow");
  add(l);
  MetadataRow m;
  m.key = writer_.string("traceName");
  m.value = appender_.text("sample");
  add(m);
  SessionRow s;
  s.name = writer_.string("sample");
  s.ts_start = kSampleStart;
  s.source = writer_.string("test");
  add(s);
}

}  // namespace

const std::vector<std::string>& hostileNames() {
  static const std::vector<std::string> names = {
      "void k<\"quoted\", 'c'>(char const*)",
      "back\\slash \\u0041 \\n",
      "line\nbreak\ttab\rreturn\x01\x1f\x7f",
      "broken \xff\xfe utf-8 \xc3( \xed\xa0\x80",
      "unicode \xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80",
      "comma,semicolon;quote\"\"",
      "</script><b>%s%n{}",
      std::string("nul\0inside", 10),
      "=1+2",
      "",
      "void cutlass::Kernel<" + std::string(2000, 'x') + ">(Params)",
  };
  return names;
}

SampleCounts writeSampleTrace(const std::string& path, const SampleOptions& options) {
  SampleCounts counts{};
  Result<std::unique_ptr<Writer>> writer =
      Writer::create(path, {.block_rows = options.block_rows, .trace_id = {1, 2, 3}, .created_ns = kSampleStart});
  EXPECT_TRUE(writer) << writer.status().message();
  if (!writer) return counts;
  for (int r = 0; r < kSampleRanks; ++r) {
    std::unique_ptr<Appender> appender = (*writer)->appender();
    Rank rank(**writer, *appender, counts, r);
    rank.describe();
    for (int64_t s = 0; s < options.steps; ++s) rank.step(s, kSampleStart + s * kSampleStepNs + r * kUs);
    int64_t t = kSampleStart + options.steps * kSampleStepNs;
    if (r == 0 && options.hostile)
      for (const std::string& name : hostileNames())
        rank.event(rank.device(EventType::kernel, name, t += 10 * kUs, 5 * kUs, 7));
    Status s = appender->flush();
    EXPECT_TRUE(s) << s.message();
  }
  if (options.close) {
    Status s = (*writer)->close();
    EXPECT_TRUE(s) << s.message();
  }
  return counts;
}

int64_t sampleReference(int rank, int64_t ts) {
  return rank == 0 ? ts : ts - 1000 + std::llround(0.5e-6 * static_cast<double>(ts - kSampleStart));
}

bool damageBlock(const std::string& path, const std::string& table, size_t nth) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path);
  const TableInfo* info = findTable(table);
  if (!reader || !info) return false;
  std::vector<const Block*> blocks = (*reader)->blocks(*info);
  if (nth >= blocks.size()) return false;
  std::string bytes = readFile(path);
  // The first bytes of the payload: of the first column that has any. Every table's first column is one all readers
  // use.
  bytes[blocks[nth]->offset + 56 + 48 * blocks[nth]->columns.size()] ^= 1;
  writeFile(path, bytes);
  return true;
}

}  // namespace tracesmith::test
