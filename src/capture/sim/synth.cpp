// A simulated job as a trace file.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "capture/sim/rows.hpp"

namespace tracesmith::sim {
namespace {

using namespace tracesmith::trace;

/// Nodes, devices, links, processes, groups, clocks, and what is true about the job.
Status describe(const Job& job, const JobStrings& s, Writer& w, Appender& out) {
  const int per_node = job.config().gpus_per_node, ranks = job.config().ranks;
  SessionRow session;
  session.name = w.string("synth");
  session.ts_start = Job::kStartNs;
  session.source = w.string("synth");
  std::string json;
  JsonWriter args(json);
  args.beginObject()
      .field("events", job.config().events)
      .field("ranks", ranks)
      .field("seed", job.config().seed)
      .endObject();
  session.args = out.text(json);
  TS_TRY(out.append(session));
  for (int n = 0; n < job.nodes(); ++n) {
    const int gpus = std::min(per_node, ranks - n * per_node);
    NodeRow node;
    node.node = node.hostname = s.nodes[static_cast<size_t>(n)];
    node.os = w.string(kSimulated);
    node.cpus = 192;
    node.memory = 2'000'000'000'000;
    node.gpus = gpus;
    TS_TRY(out.append(node));
    ClockRow clock;
    clock.node = node.node;
    clock.ts_from = job.clock(n).raw_start;
    clock.offset_ns = job.clock(n).offset;
    clock.drift_ppm = real(job.clock(n).drift_ppm);
    clock.bound_ns = 0;
    clock.method = w.string("truth");
    clock.reference = s.nodes[0];
    TS_TRY(out.append(clock));
    for (int d = 0; d < gpus; ++d) {
      DeviceRow device;
      device.node = node.node;
      device.device = d;
      const bool other = job.modelFactor(n * per_node + d) != 1;
      device.name = w.string(other ? "Simulated T4" : "Simulated H100");
      device.vendor = w.string(kSimulated);
      device.memory = other ? 16'000'000'000 : 80'000'000'000;
      device.cc_major = other ? 7 : 9;
      device.cc_minor = other ? 5 : 0;
      device.sms = other ? 40 : 132;
      device.warp = 32;
      if (!job.config().faults.other_gpus.empty()) {  // as `bench` would measure them
        const double factor = job.modelFactor(n * per_node + d);
        std::string measured;
        JsonWriter figures(measured);
        figures.beginObject()
            .field("measured_tflops", 600 / factor)
            .field("measured_memory_gbps", 3000 / factor)
            .endObject();
        device.args = out.text(measured);
      }
      TS_TRY(out.append(device));
      for (int peer = d + 1; peer < gpus; ++peer) {
        LinkRow link;
        link.node = link.peer_node = node.node;
        link.device = d;
        link.peer_device = peer;
        link.kind = w.string("NVLink4");
        link.count = 18;
        link.gbps = real(450);
        TS_TRY(out.append(link));
      }
    }
  }
  for (int r = 0; r < ranks; ++r) {
    ProcessRow process;
    process.node = s.nodes[static_cast<size_t>(job.nodeOf(r))];
    process.pid = pidOf(job, r);
    process.rank = r;
    process.world_size = ranks;
    process.local_rank = r % per_node;
    process.name = w.string(kSimulated);
    process.command = out.text("python3 train.py");
    TS_TRY(out.append(process));
    for (int backward = 0; backward < 2; ++backward) {
      ThreadRow thread;
      thread.node = process.node;
      thread.rank = r;
      thread.pid = process.pid;
      thread.tid = process.pid + backward * 64;
      thread.name = w.string(backward ? "pt_autograd_0" : "python3");
      TS_TRY(out.append(thread));
    }
  }
  for (int g = 0; g < kGroups; ++g)
    for (size_t id = 0; id < s.comms[g].size(); ++id) {
      const auto kind = static_cast<Group>(g);
      const int size = job.place(job.member(kind, static_cast<int>(id), 0), kind).size;
      if (job.config().laidOut() && size < 2) continue;
      GroupRow row;
      row.comm = s.comms[g][id];
      row.backend = w.string("nccl");
      row.size = size;
      std::string list = "[";
      for (int i = 0; i < size; ++i)
        list += (i > 0 ? "," : "") + std::to_string(job.member(kind, static_cast<int>(id), i));
      row.ranks = out.text(list + "]");
      TS_TRY(out.append(row));
    }
  auto truth = [&](const char* key, const std::string& value) {
    MetadataRow row;
    row.key = w.string(key);
    row.value = out.text(value);
    return out.append(row);
  };
  const Faults& faults = job.config().faults;
  auto shown = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", v);
    return std::string(text);
  };
  if (faults.slow_rank >= 0) {
    TS_TRY(truth("truth.slow_rank", std::to_string(faults.slow_rank)));
    TS_TRY(truth("truth.slow_rank_from_step", std::to_string(faults.from_step)));
    TS_TRY(truth("truth.slow_rank_factor", shown(faults.slowdown)));
  }
  for (const auto& [rank, factor] : faults.also_slow) {
    TS_TRY(truth("truth.also_slow_rank", std::to_string(rank)));
    TS_TRY(truth("truth.also_slow_factor", shown(factor)));
  }
  for (const auto& [rank, factor] : faults.other_gpus) {
    TS_TRY(truth("truth.other_gpu_rank", std::to_string(rank)));
    TS_TRY(truth("truth.other_gpu_factor", shown(factor)));
  }
  if (faults.checkpoint_every > 0) {
    TS_TRY(truth("truth.checkpoint_every", std::to_string(faults.checkpoint_every)));
    TS_TRY(truth("truth.checkpoint_ms", shown(faults.checkpoint_ms)));
  }
  if (faults.slow_node >= 0) {
    TS_TRY(truth("truth.slow_link_node", "node" + std::to_string(faults.slow_node)));
    TS_TRY(truth("truth.slow_link_factor", shown(faults.link_slowdown)));
  }
  if (faults.late_rank >= 0) {
    TS_TRY(truth("truth.late_rank", std::to_string(faults.late_rank)));
    TS_TRY(truth("truth.late_ms", shown(faults.late_ms)));
  }
  return out.flush();
}

/// Collectives, steps and telemetry of a window, all ranks together.
Status windowTables(const Job& job, const JobRows& rows, const JobStrings& s, const std::vector<int64_t>& step_names,
                    Appender& out) {
  const int ranks = job.config().ranks, per_node = job.config().gpus_per_node;
  for (int r = 0; r < ranks; ++r)  // rank by rank, as a cluster's agents send them
    for (int step = rows.firstStep(); step < rows.lastStep(); ++step) {
      if (rows.quota(step, r) < job.rowsPerStep()) continue;  // the trace ends inside this step
      const int node = job.nodeOf(r);
      const ClockTruth& clock = job.clock(node);
      for (size_t k = 0; k < job.collectives().size(); ++k) {
        const CollectiveModel& model = job.collectives()[k];
        const CollectiveTime& t = rows.collective(step, r, k);
        if (!job.takesPart(r, model)) continue;
        const GroupPlace place = job.place(r, model.group);
        CollectiveRow c;
        c.ts = clock.toRaw(t.start);
        c.dur = clock.toRaw(t.end) - c.ts;
        c.op = s.ops[k];
        c.comm = s.comms[static_cast<size_t>(model.group)][static_cast<size_t>(place.id)];
        c.seq = job.numberOf(r, model, step);
        if (model.pair())
          c.peer = job.peerOf(r, model);
        else
          c.nccl_seq = Job::ncclNumberOf(model, step);
        c.node = s.nodes[static_cast<size_t>(node)];
        c.rank = r;
        c.group_rank = place.rank;
        c.group_size = place.size;
        c.bytes = model.bytes;
        c.elements = model.bytes / 2;
        c.dtype = s.dtype;
        c.algo = s.algo;
        c.proto = s.proto;
        c.channels = 24;
        c.device = r % per_node;
        c.stream = 24 + job.streamOf(model);
        c.correlation = t.correlation;
        c.step = step;
        c.pid = pidOf(job, r);
        c.name = s.collective_kernels[model.kernel_name];
        c.ts_enqueue = clock.toRaw(t.enqueue);
        TS_TRY(out.append(c));
      }
    }
  for (int step = rows.firstStep(); step < rows.lastStep(); ++step)
    for (int r = 0; r < ranks; ++r) {
      if (rows.quota(step, r) < job.rowsPerStep()) continue;
      const ClockTruth& clock = job.clock(job.nodeOf(r));
      StepRow row;
      row.ts = clock.toRaw(rows.stepStart(step, r));
      row.dur = clock.toRaw(rows.stepEnd(step, r)) - row.ts;
      row.node = s.nodes[static_cast<size_t>(job.nodeOf(r))];
      row.rank = r;
      row.pid = pidOf(job, r);
      row.step = step;
      row.name = step_names[static_cast<size_t>(step - rows.firstStep())];
      TS_TRY(out.append(row));
      const bool slow = r == job.slowRank() && step >= job.slowFromStep();
      Random random = job.stepRandom(r, step);
      const struct {
        int64_t name, unit;
        double value;
      } samples[] = {{s.power, s.watt, (slow ? 520 : 650) * random.noise() * (job.modelFactor(r) != 1 ? 0.1 : 1)},
                     {s.clock, s.mhz, (slow ? 1380.0 : 1980.0) * (job.modelFactor(r) != 1 ? 0.8 : 1)},
                     {s.utilization, s.percent, std::min(100.0, 97 * random.noise())}};
      for (const auto& sample : samples) {
        MetricRow metric;
        metric.ts = row.ts;
        metric.node = row.node;
        metric.device = r % per_node;
        metric.name = sample.name;
        metric.unit = sample.unit;
        metric.value = real(sample.value);
        TS_TRY(out.append(metric));
      }
    }
  return out.flush();
}

}  // namespace

Status synthesize(const JobConfig& config, const std::string& path, size_t threads) {
  TS_TRY(checkLayout(config));
  Job job(config);
  WriterOptions options;
  options.whole_or_absent = true;
  options.created_ns = Job::kStartNs;
  Random id(config.seed ^ static_cast<uint64_t>(config.ranks) << 32 ^ config.events);
  for (size_t i = 0; i < 16; i += 8) {
    uint64_t word = id.next();
    std::memcpy(options.trace_id.data() + i, &word, 8);
  }
  Result<std::unique_ptr<Writer>> created = Writer::create(path, options);
  if (!created) return created.status();
  Writer& writer = **created;
  JobStrings strings(job, writer);
  {
    auto appender = writer.appender();
    TS_TRY(describe(job, strings, writer, *appender));
  }
  Progress progress("simulating");
  JobRows rows(job);
  std::vector<std::unique_ptr<Appender>> appenders(std::max<size_t>(1, threads));
  for (auto& a : appenders) {
    a = writer.appender();
    a->keepBlocks();
  }
  const auto ranks = static_cast<size_t>(config.ranks);
  while (rows.nextWindow(threads)) {
    std::vector<int64_t> step_names;
    for (int step = rows.firstStep(); step < rows.lastStep(); ++step)
      step_names.push_back(writer.string("ProfilerStep#" + std::to_string(step)));
    Turnstile turnstile;
    Status failed;  // guarded by the turnstile
    // Ranks are encoded in parallel and written in order: the bytes do not depend on the threads.
    parallelFor(ranks, threads, [&](size_t r, size_t worker) {
      const int rank = static_cast<int>(r);
      Appender& out = *appenders[worker];
      EventRows make(job, strings, rank);
      Status status;
      rows.events(rank, [&](const SimEvent& e, int step) {
        if (status) status = out.append(make.row(e, step));
      });
      for (int step = rows.firstStep(); step < rows.lastStep() && status; ++step)
        if (rows.quota(step, rank) == job.rowsPerStep())
          status = out.append(make.stepRow(rows.stepStart(step, rank), rows.stepEnd(step, rank), step,
                                           step_names[static_cast<size_t>(step - rows.firstStep())]));
      Result<std::vector<std::string>> blocks = out.takeBlocks();
      if (status && !blocks) status = blocks.status();
      turnstile.pass(r, [&] {
        if (status && failed)
          for (std::string& block : *blocks)
            if (status) status = writer.commit(std::move(block));
        if (!status && failed) failed = status;
      });
    });
    TS_TRY(failed);
    auto appender = writer.appender();
    TS_TRY(windowTables(job, rows, strings, step_names, *appender));
    progress.update(static_cast<uint64_t>(rows.lastStep()), static_cast<uint64_t>(job.steps()));
  }
  appenders.clear();
  return writer.close();
}

}  // namespace tracesmith::sim
