// Rows of a training job as a profiler sees them, for the query benchmark: 512 ranks on 64 nodes, about 3,000 rows for each
// step and rank (38 % launches, 33 % kernels, 23 % operators, 1.8 % copies, 3.5 % NCCL kernels), 3,000 kernel names in
// Zipf proportion. Steps repeat the same work with some changed operators and noisy durations. The same seed, the same file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tracesmith/trace/writer.hpp"

namespace tracesmith::bench {

class JobTrace {
 public:
  static constexpr int kRanks = 512, kRanksPerNode = 8, kRowsPerStep = 3000;
  static constexpr int kKernelNames = 3000, kOpNames = 300, kShapes = 400;
  static constexpr int64_t kStart = 1'000'000'000, kStepNs = 40'000'000;

  explicit JobTrace(trace::Writer& writer) : writer_(writer) {
    std::mt19937_64 random(7);
    auto word = [&](size_t length) {
      std::string s;
      while (s.size() < length) s += "abcdefghijklmnopqrstuvwxyz_"[random() % 27];
      return s;
    };
    for (int i = 0; i < kKernelNames; ++i) {
      kernels_.push_back(writer.string("void at::native::" + word(23 + random() % 110) + "<" + std::to_string(i) + ">"));
      kernel_ns_.push_back(static_cast<int64_t>(2000 * std::exp(std::normal_distribution<>(1.0, 1.1)(random))));
      zipf_.push_back((i ? zipf_.back() : 0) + 1 / std::pow(i + 1, 1.05));
    }
    for (int i = 0; i < kOpNames; ++i) ops_.push_back(writer.string("aten::" + word(4 + random() % 20)));
    for (int i = 0; i < kShapes; ++i) {
      trace::LaunchShape s;
      s.grid_x = static_cast<int32_t>(1 + random() % 4096);
      s.grid_y = s.grid_z = s.block_y = s.block_z = 1;
      s.block_x = 32 << (random() % 6);
      s.registers = static_cast<int32_t>(16 + random() % 200);
      s.shared_static = 0;
      s.shared_dynamic = random() % 3 ? 0 : 49152;
      shapes_.push_back(writer.launch(s));
    }
    for (const char* name : {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                             "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                             "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"})
      nccl_.push_back(writer.string(name));
    for (const char* name : {"all_reduce", "all_gather", "reduce_scatter"}) nccl_ops_.push_back(writer.string(name));
    for (const char* name : {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync"}) api_.push_back(writer.string(name));
    memcpy_ = writer.string("Memcpy DtoD (Device -> Device)");
    comm_ = writer.string("default_pg");
    bf16_ = writer.string("bf16");
    ring_ = writer.string("ring");
    simple_ = writer.string("Simple");
    for (int n = 0; n < kRanks / kRanksPerNode; ++n) nodes_.push_back(writer.string("node" + std::to_string(n)));
    // One step of work; ranks and steps vary it.
    for (int i = 0; i < kLaunches; ++i) {
      Task t{};
      double roll = static_cast<double>(random() % 10000) / 10000;
      t.kind = roll < 0.0916 ? Task::kNccl : roll < 0.1387 ? Task::kCopy : Task::kKernel;
      t.name = pickKernel(random);
      t.shape = random() % kShapes;
      t.op = random() % kOpNames;
      program_.push_back(t);
    }
  }

  /// Writes about `rows` rows of events and the collectives that go with them, with `threads` threads.
  Status write(uint64_t rows, int threads) {
    int steps = static_cast<int>(std::max<uint64_t>(1, rows / (kRanks * kRowsPerStep)));
    std::vector<Status> results(static_cast<size_t>(threads));
    std::vector<std::thread> workers;
    for (int w = 0; w < threads; ++w)
      workers.emplace_back([&, w] {
        for (int rank = w; rank < kRanks && results[static_cast<size_t>(w)]; rank += threads)
          results[static_cast<size_t>(w)] = writeRank(rank, steps);
      });
    for (auto& t : workers) t.join();
    for (const Status& s : results) TS_TRY(s);
    return {};
  }

 private:
  static constexpr int kLaunches = 1149;  // a step and rank: 38 % of the rows, one for each kernel and copy

  struct Task {
    enum { kKernel, kNccl, kCopy } kind;
    size_t name, shape, op;
  };

  template <typename R>
  size_t pickKernel(R& random) const {
    double at = static_cast<double>(random() >> 11) * 0x1p-53 * zipf_.back();
    return static_cast<size_t>(std::lower_bound(zipf_.begin(), zipf_.end(), at) - zipf_.begin());
  }

  Status writeRank(int rank, int steps) {
    std::mt19937_64 random(static_cast<uint64_t>(rank) * 7919 + 1);
    auto appender = writer_.appender();
    int64_t correlation = 1000 + rank * 17, external = 1, seq = 0;
    const int64_t skew = static_cast<int64_t>(random() % 2'000'000);
    for (int step = 0; step < steps; ++step) {
      int64_t host = kStart + step * kStepNs + skew + static_cast<int64_t>(random() % 300'000);
      int64_t device = host;
      for (Task task : program_) {
        if (task.kind == Task::kKernel && random() % 100 < 6) task.name = pickKernel(random);
        trace::EventRow row;
        row.node = nodes_[static_cast<size_t>(rank / kRanksPerNode)];
        row.rank = rank;
        row.pid = 20000 + rank;
        row.step = step;
        host += 2000 + static_cast<int64_t>(random() % 6000);
        if (random() % 100 < 61) {
          trace::EventRow op = row;
          op.type = static_cast<int64_t>(trace::EventType::cpu_op);
          op.name = ops_[task.op];
          op.ts = host;
          op.dur = 9000 + static_cast<int64_t>(random() % 20000);
          op.tid = 20000 + rank;
          op.external_id = external++;
          TS_TRY(appender->append(op));
          host += 1000 + static_cast<int64_t>(random() % 500);
        }
        trace::EventRow launch = row;
        launch.type = static_cast<int64_t>(trace::EventType::runtime);
        launch.name = api_[task.kind == Task::kCopy ? 2 : task.shape % 2];
        launch.ts = host;
        launch.dur = 3500 + static_cast<int64_t>(random() % 3000);
        launch.tid = 20000 + rank;
        launch.correlation = ++correlation;
        launch.external_id = external;
        TS_TRY(appender->append(launch));

        int64_t length = kernel_ns_[task.name];
        if (task.kind == Task::kNccl) length = 60000 + static_cast<int64_t>(random() % 60000);
        if (task.kind == Task::kCopy) length = 1500 + static_cast<int64_t>(random() % 4000);
        length = static_cast<int64_t>(static_cast<double>(length) * std::normal_distribution<>(1.0, 0.04)(random));
        device = std::max(device + 800 + static_cast<int64_t>(random() % 500), host + 4000 + static_cast<int64_t>(random() % 3000));
        trace::EventRow work = row;
        work.type = static_cast<int64_t>(task.kind == Task::kCopy ? trace::EventType::memcpy : trace::EventType::kernel);
        work.ts = device;
        work.dur = std::max<int64_t>(length, 500);
        work.device = rank % kRanksPerNode;
        work.stream = task.kind == Task::kNccl ? 20 : 7;
        work.context = 1;
        work.correlation = correlation;
        work.external_id = external;
        if (task.kind == Task::kCopy) {
          work.name = memcpy_;
          work.bytes = 4096 << (random() % 10);
        } else {
          work.name = task.kind == Task::kNccl ? nccl_[task.shape % 3] : kernels_[task.name];
          work.launch = shapes_[task.shape];
        }
        device += work.dur;
        TS_TRY(appender->append(work));
        if (task.kind != Task::kNccl) continue;
        trace::CollectiveRow c;
        c.ts = work.ts;
        c.dur = work.dur;
        c.op = nccl_ops_[task.shape % 3];
        c.comm = comm_;
        c.seq = seq++;
        c.node = row.node;
        c.rank = c.group_rank = rank;
        c.group_size = kRanks;
        c.bytes = 1 << 20 << (task.shape % 6);
        c.elements = c.bytes / 2;
        c.dtype = bf16_;
        c.algo = ring_;
        c.proto = simple_;
        c.channels = 16;
        c.device = work.device;
        c.stream = work.stream;
        c.correlation = correlation;
        c.step = step;
        c.pid = row.pid;
        c.name = work.name;
        c.ts_enqueue = launch.ts;
        TS_TRY(appender->append(c));
      }
    }
    return appender->flush();
  }

  trace::Writer& writer_;
  std::vector<int64_t> kernels_, ops_, shapes_, nccl_, nccl_ops_, api_, nodes_, kernel_ns_;
  int64_t memcpy_, comm_, bf16_, ring_, simple_;
  std::vector<double> zipf_;
  std::vector<Task> program_;
};

}  // namespace tracesmith::bench
