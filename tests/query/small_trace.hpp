// The small trace that all SQL tests ask: two nodes, four ranks, ten launches each; every number can be told by heart.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {

/// Writes the rows of ranks first … last - 1. What belongs to no rank is in the file with rank 0.
inline void writeSmallTrace(const std::string& path, int first = 0, int last = 4, uint32_t block_rows = 32768) {
  using namespace tracesmith::trace;
  Result<std::unique_ptr<Writer>> made = Writer::create(path, {.block_rows = block_rows});
  ASSERT_TRUE(made) << made.status().message();
  Writer& writer = **made;
  for (int rank = first; rank < last; ++rank) {
    auto appender = writer.appender();
    const int64_t node = writer.string("node" + std::to_string(rank / 2));
    EventRow base;
    base.node = node;
    base.rank = rank;
    base.pid = 100 + rank;
    for (int k = 0; k < 10; ++k) {
      EventRow op = base;
      op.type = static_cast<int64_t>(EventType::cpu_op);
      op.name = writer.string(k % 2 ? "aten::mm" : "aten::relu, \"in place\"");
      op.ts = 1000 * k + rank;
      op.dur = 300;
      op.tid = 7;
      op.step = k / 5;
      op.args = appender->text("{\"k\": " + std::to_string(k) + "}");
      ASSERT_TRUE(appender->append(op));

      EventRow launch = base;
      launch.type = static_cast<int64_t>(EventType::runtime);
      launch.name = writer.string("cudaLaunchKernel");
      launch.ts = 1000 * k + 100 + rank;
      launch.dur = 10;
      launch.tid = 7;
      launch.step = k / 5;
      launch.correlation = k + 1;
      ASSERT_TRUE(appender->append(launch));

      EventRow kernel = base;
      kernel.type = static_cast<int64_t>(EventType::kernel);
      kernel.name = writer.string(k % 2 ? "gemm" : "relu");
      kernel.ts = 1000 * k + 200 + rank;
      kernel.dur = 50 + k;
      kernel.device = rank % 2;
      kernel.stream = 7;
      kernel.step = k / 5;
      kernel.correlation = k + 1;
      LaunchShape shape;
      shape.grid_x = k + 1;
      shape.grid_y = shape.grid_z = shape.block_y = shape.block_z = 1;
      shape.block_x = 64;
      if (k > 0) shape.registers = 32;
      kernel.launch = writer.launch(shape);
      ASSERT_TRUE(appender->append(kernel));

      if (k % 5 != 4) continue;
      EventRow copy = base;
      copy.type = static_cast<int64_t>(EventType::memcpy);
      copy.name = writer.string("Memcpy HtoD");
      copy.ts = 1000 * k + 400 + rank;
      if (k == 9) copy.dur = 25;  // the other one's end was not seen
      copy.device = rank % 2;
      copy.stream = 8;
      copy.bytes = 4096 * k;
      ASSERT_TRUE(appender->append(copy));
    }
    EventRow marker = base;
    marker.type = static_cast<int64_t>(EventType::marker);
    marker.ts = 9999;
    ASSERT_TRUE(appender->append(marker));

    for (int step = 0; step < 2; ++step) {
      StepRow s;
      s.ts = 5000 * step;
      s.dur = 5000;
      s.node = node;
      s.rank = rank;
      s.step = step;
      ASSERT_TRUE(appender->append(s));
      for (int i = 0; i < 2; ++i) {
        CollectiveRow c;
        c.ts = 5000 * step + 1000 * i + 10 * rank;
        c.dur = 100 * (rank + 1);
        c.op = writer.string(i ? "all_gather" : "all_reduce");
        c.comm = writer.string("world");
        c.seq = 2 * step + i;
        c.node = node;
        c.rank = rank;
        c.group_size = 4;
        c.bytes = 1 << 20;
        c.step = step;
        ASSERT_TRUE(appender->append(c));
      }
    }
    auto counted = [&](const char* name, const char* series, double value, int64_t ts, int64_t step) {
      CounterRow c;
      c.ts = ts;
      c.node = node;
      c.rank = rank;
      c.name = writer.string(name);
      if (series) c.series = writer.string(series);
      c.value = real(value);
      c.step = step;
      ASSERT_TRUE(appender->append(c));
    };
    for (int step = 0; step < 2; ++step) {
      counted("memory allocated", nullptr, (100.0 * (rank + 1) + step) * (1 << 20), 5000 * step + 4990, step);
      counted("loss", nullptr, 2.5 - step, 5000 * step + 4000, step);
      counted("samples/s", nullptr, 64.0 * (rank + 1), 5000 * step + 4995, step);
      counted("tokens/s", nullptr, 640.0 * (rank + 1), 5000 * step + 4995, step);
      counted("mfu %", nullptr, 41.5 - rank, 5000 * step + 4995, step);
      if (rank > 0) continue;
      counted("table: evals", "accuracy", 0.5 + step / 4.0, 5000 * step + 4500, step);
      counted("table: evals", "epoch", step, 5000 * step + 4500, step);
      counted("table: evals", "split=held out", 0, 5000 * step + 4500, step);
    }
    if (rank == 1)
      for (int look = 0; look < 2; ++look) {
        StackRow stack;
        stack.ts = 3000 * look;
        stack.dur = 3000;
        stack.node = node;
        stack.rank = rank;
        stack.tid = 7;
        stack.samples = 1;
        stack.stack = writer.string(look == 0 ? "<module> (train.py:3)"
                                              : "<module> (train.py:9);run_collective (/app/my comm.py:77);poll");
        ASSERT_TRUE(appender->append(stack));
      }
    if (rank == 0) {
      MetadataRow table;
      table.node = node;
      table.rank = 0;
      table.key = writer.string("table: evals");
      table.value = appender->text("epoch int\naccuracy float\nsplit str\nmissing float");
      ASSERT_TRUE(appender->append(table));
      for (double value : {1.5, -2.25, 1e300}) {
        MetricRow m;
        m.ts = 10;
        m.node = node;
        m.name = writer.string("power_w");
        m.value = real(value);
        ASSERT_TRUE(appender->append(m));
      }
      MetricRow unknown;
      unknown.ts = 20;
      unknown.name = writer.string("power_w");
      ASSERT_TRUE(appender->append(unknown));
      LossRow loss;
      loss.cause = writer.string("ring full");
      loss.count = 12;
      loss.detail = appender->text("the ring of rank 0 was full");
      ASSERT_TRUE(appender->append(loss));
    }
    ASSERT_TRUE(appender->flush());
  }
  ASSERT_TRUE(writer.close());
}

}  // namespace tracesmith::test
