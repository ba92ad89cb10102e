#include "support/small_job.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {

using namespace trace;

namespace {

constexpr int64_t kStart = 1'000'000'000;

class Output : public JobWriter {
 public:
  Output(const std::string& path, const SmallJob& job) : job_(job) {
    auto created = Writer::create(path);
    EXPECT_TRUE(created) << created.status().message();
    writer_ = std::move(*created);
    appender_ = writer_->appender();
  }

  int nodeOf(int rank) const { return rank / job_.ranks_per_node; }
  int64_t raw(int rank, int64_t reference) const {
    auto it = job_.clock_ns.find(nodeOf(rank));
    return kStart + reference + (it == job_.clock_ns.end() ? 0 : it->second);
  }
  int64_t string(const std::string& s) { return writer_->string(s); }
  template <typename Row>
  void add(const Row& row) {
    Status s = appender_->append(row);
    EXPECT_TRUE(s) << s.message();
  }

  void event(int rank, EventType type, const std::string& name, int64_t from, int64_t to, int64_t correlation, int step,
             int64_t stream) {
    EventRow e;
    e.ts = raw(rank, from);
    e.dur = to - from;
    e.type = static_cast<int64_t>(type);
    e.name = string(name);
    e.node = string("node" + std::to_string(nodeOf(rank)));
    e.rank = rank;
    e.pid = 100 + rank;
    e.correlation = correlation;
    if (job_.step_rows) e.step = step;
    if (stream >= 0) {
      e.stream = stream;
      e.device = rank % job_.ranks_per_node;
    }
    LaunchShape shape;
    shape.grid_x = job_.own_shape.contains(rank) ? 7 : 128;
    if (type == EventType::kernel) e.launch = writer_->launch(shape);
    add(e);
  }

  void metric(int node, int device, const std::string& name, int64_t ts, double value) override {
    MetricRow m;
    m.ts = kStart + ts;
    m.node = string("node" + std::to_string(node));
    m.device = device;
    m.name = string(name);
    m.value = real(value);
    add(m);
  }

  void device(int node, int device) override {
    DeviceRow d;
    d.node = string("node" + std::to_string(node));
    d.device = device;
    add(d);
  }

  void describe() {
    for (int r = 0; r < job_.ranks; ++r) {
      if (job_.left_out.contains(r)) continue;
      ProcessRow p;
      p.node = string("node" + std::to_string(nodeOf(r)));
      p.rank = r;
      p.pid = 100 + r;
      p.world_size = job_.ranks;
      p.local_rank = r % job_.ranks_per_node;
      add(p);
    }
    for (int n = 0; job_.clock_rows && n <= nodeOf(job_.ranks - 1); ++n) {
      auto it = job_.clock_ns.find(n);
      ClockRow c;
      c.node = string("node" + std::to_string(n));
      c.ts_from = 0;
      c.offset_ns = -(it == job_.clock_ns.end() ? 0 : it->second) + (n == 1 ? job_.clock_error_ns : 0);
      c.drift_ppm = real(0);
      c.bound_ns = job_.clock_bound_ns;
      c.method = string("exchange");
      add(c);
    }
    if (job_.lost > 0) {
      LossRow l;
      l.rank = 1;
      l.cause = string("ring full");
      l.count = job_.lost;
      add(l);
    }
  }

  void close() {
    EXPECT_TRUE(appender_->flush());
    appender_.reset();
    Status s = writer_->close();
    EXPECT_TRUE(s) << s.message();
  }

 private:
  const SmallJob& job_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Appender> appender_;
};

}  // namespace

void writeSmallJob(const std::string& path, const SmallJob& job) {
  Output out(path, job);
  out.describe();
  const auto ranks = static_cast<size_t>(job.ranks);
  std::vector<int64_t> now(ranks, 0), arrival(ranks), correlation(ranks, 1);
  uint64_t random = 12345;
  auto noise = [&] {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    return 1 + (static_cast<double>(random >> 40) / static_cast<double>(1 << 24) - 0.5) * 0.02;
  };
  for (int step = 0; step < job.steps; ++step) {
    const std::vector<int64_t> begin = now;
    for (size_t r = 0; r < ranks; ++r) {
      const int rank = static_cast<int>(r);
      const bool there = !job.left_out.contains(rank);
      const double factor = job.slow.contains(rank) && step >= job.slow_from ? job.slow.at(rank) : 1;
      int64_t host = now[r] + (job.late_ns.contains(rank) ? job.late_ns.at(rank) : 0), device = host;
      for (int k = 0; k < job.kernels; ++k) {
        const auto dur = static_cast<int64_t>(50'000 * factor * noise());
        const int64_t start = std::max(device + 1000, host + 5000);
        if (there) {
          out.event(rank, EventType::runtime, "cudaLaunchKernel", host, host + 4000, correlation[r], step, -1);
          out.event(rank, EventType::kernel, "kernel" + std::to_string(k % 5), start, start + dur, correlation[r], step,
                    7);
        }
        ++correlation[r];
        device = start + dur;
        host += 6000;
      }
      arrival[r] = device + 1000;
    }
    const int64_t end = *std::max_element(arrival.begin(), arrival.end()) +
                        static_cast<int64_t>(static_cast<double>(job.transfer_ns) * noise());
    for (size_t r = 0; r < ranks; ++r) {
      const int rank = static_cast<int>(r);
      now[r] = (job.collectives ? end : arrival[r]) + 5000;
      if (job.left_out.contains(rank)) continue;
      if (job.collectives) {
        out.event(rank, EventType::runtime, "cudaLaunchKernel", arrival[r] - 6000, arrival[r] - 2000, correlation[r],
                  step, -1);
        out.event(rank, EventType::kernel, job.kernel_name, arrival[r], end, correlation[r], step, 20);
      }
      if (job.collectives && job.table) {
        CollectiveRow c;
        c.ts = out.raw(rank, arrival[r]);
        c.dur = end - arrival[r];
        c.op = out.string("all_reduce");
        c.comm = out.string("world");
        if (job.sequence) c.seq = job.restart && step >= job.steps / 2 ? step - job.steps / 2 : step;
        c.node = out.string("node" + std::to_string(out.nodeOf(rank)));
        c.rank = rank;
        c.group_size = job.ranks;
        c.bytes = 1 << 20;
        c.algo = out.string("ring");
        c.correlation = correlation[r];
        c.stream = 20;
        c.name = out.string(job.kernel_name);
        if (job.step_rows) c.step = step;
        out.add(c);
      }
      ++correlation[r];
      if (!job.step_rows) continue;
      StepRow s;
      s.ts = out.raw(rank, begin[r]);
      s.dur = now[r] - begin[r];
      s.node = out.string("node" + std::to_string(out.nodeOf(rank)));
      s.rank = rank;
      s.step = step;
      s.name = out.string("step " + std::to_string(step));
      out.add(s);
    }
  }
  for (size_t r = 0; r < ranks && job.never_comes >= 0; ++r) {
    const int rank = static_cast<int>(r);
    out.event(rank, EventType::sync, "Stream Sync", now[r], now[r] + 1000, kNull, job.steps, -1);
    out.event(rank, EventType::sync, "Stream Sync", now[r] + 10'000'000'000, now[r] + 10'000'001'000, kNull, job.steps,
              -1);
    if (rank == job.never_comes) continue;
    CollectiveRow c;
    c.op = out.string("all_reduce");
    c.comm = out.string("world");
    c.seq = job.steps;
    c.node = out.string("node" + std::to_string(out.nodeOf(rank)));
    c.rank = rank;
    c.group_size = job.ranks;
    c.ts_enqueue = out.raw(rank, now[r] + 2000);
    out.add(c);
  }
  if (job.more) job.more(out);
  out.close();
}

}  // namespace tracesmith::test
