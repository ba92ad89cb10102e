// Modules that the Python hooks record: kernels belong to the modules in which they were launched.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using trace::EventType;

constexpr int kRanks = 3;
constexpr int64_t kUs = 1000;

/// Steps of five blocks with a module each; the autograd thread launches the backward pass.
class Modules {
 public:
  Modules() : node_(t_.string("n0")) {}

  /// One rank whose steps replay a graph: its nodes were captured in head, in blocks.0 (backward) and in none; each
  /// takes 10 µs more than the one before. On `sampled` steps the launch is in a range of the model, and head has a
  /// kernel of its own beside it.
  Analysis replay(bool steps, std::initializer_list<int> sampled) {
    node(1, 5, "model (Gpt) > old (Linear)", "forward");  // another graph had this id before
    node(1, 10, "model (Gpt) > head (Linear)", "forward");
    node(2, 10, "model (Gpt) > blocks.0 (Block)", "backward");
    for (int step = 0; step < 12; ++step) {
      step_ = steps ? step : 0;  // where none ends, all is of the one that began
      const int64_t now = (step + 1) * 10'000 * kUs;
      trace::StepRow s;
      s.ts = now - 10 * kUs;
      s.dur = 10'000 * kUs;
      s.rank = rank_;
      s.node = node_;
      s.step = step;
      if (steps) t_.add(s);
      launch(1, now, 100 * kUs, "gemm", 1);
      again(110 * kUs, 2);
      again(120 * kUs, 3);
      if (std::find(sampled.begin(), sampled.end(), step) == sampled.end()) continue;
      range(1, "module: model (Gpt)", now - kUs, now + kUs);
      range(1, "module: head (Linear)", now + 500 * kUs, now + 600 * kUs);
      launch(1, now + 550 * kUs, 7 * kUs, "gemm");
    }
    return t_.analyzed();
  }

  /// `slow`: a rank on which blocks.1.attn takes twice as long; −1: none. `head`: the same for the head.
  Analysis run(int slow, int head = -1) {
    for (int rank = 0; rank < kRanks; ++rank)
      for (int step = 0; step < 12; ++step) {
        rank_ = rank, step_ = step;
        int64_t now = step * 10'000 * kUs;
        trace::StepRow s;
        s.ts = now;
        s.dur = 10'000 * kUs;
        s.rank = rank;
        s.node = node_;
        s.step = step;
        t_.add(s);
        const bool sampled = step == 4 || step == 10;
        const int64_t whole = now;
        for (int block = 0; block < 5; ++block) {
          const std::string name = "blocks." + std::to_string(block);
          const int64_t from = now;
          launch(1, now + 10 * kUs, 100 * kUs, "norm");
          launch(1, now + 40 * kUs, (block == 1 && rank == slow ? 600 : 300) * kUs, "attention");
          launch(1, now + 60 * kUs, 1000 * kUs, "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)");
          now += 100 * kUs;
          if (sampled) range(1, "module: " + name + ".attn (Attention)", from + 30 * kUs, from + 70 * kUs);
          if (sampled) range(1, "module: " + name + " (Block)", from, now);
        }
        launch(1, now + 10 * kUs, (rank == head ? 900 : 500) * kUs, "gemm");
        if (sampled) range(1, "module: head (Linear)", now, now + 50 * kUs);
        if (sampled) range(1, "module: model (Gpt)", whole, now + 60 * kUs);
        now += 100 * kUs;
        launch(2, now + 40 * kUs, 700 * kUs, "attention_backward");
        launch(1, now + 40 * kUs, 50 * kUs, "elsewhere");
        if (sampled) range(2, "module backward: blocks.4.attn (Attention)", now, now + 50 * kUs);
        if (sampled) range(2, "module backward: model (Gpt)", now + kUs, now + 60 * kUs);
      }
    trace::CounterRow c;
    c.ts = 1;
    c.rank = 0;
    c.name = t_.string("module flops: blocks.1 (Block)");
    c.value = std::bit_cast<int64_t>(4e9);
    t_.add(c);
    return t_.analyzed();
  }

 private:
  void range(int64_t tid, const std::string& name, int64_t from, int64_t to) {
    trace::EventRow e;
    e.ts = from;
    e.dur = to - from;
    e.type = static_cast<int64_t>(EventType::annotation);
    e.name = t_.string(name);
    e.rank = rank_;
    e.node = node_;
    e.tid = tid;
    e.step = step_;
    t_.add(e);
  }
  void node(int64_t id, int64_t ts, const char* modules, const char* phase) {
    trace::GraphNodeRow n;
    n.ts = ts;
    n.node = node_;
    n.rank = rank_;
    n.graph_node = id;
    n.modules = t_.string(modules);
    n.phase = t_.string(phase);
    t_.add(n);
  }
  /// Another kernel of the last launch.
  void again(int64_t ns, int64_t graph_node) {
    last_.ts += last_.dur;
    last_.dur = ns;
    last_.graph_node = graph_node;
    t_.add(last_);
  }
  void launch(int64_t tid, int64_t at, int64_t ns, const char* kernel, int64_t graph_node = trace::kNull) {
    trace::EventRow e;
    e.ts = at;
    e.dur = 5 * kUs;
    e.type = static_cast<int64_t>(EventType::runtime);
    e.name = t_.string("cudaLaunchKernel");
    e.rank = rank_;
    e.node = node_;
    e.tid = tid;
    e.correlation = ++id_;
    t_.add(e);
    e.type = static_cast<int64_t>(EventType::kernel);
    e.name = t_.string(kernel);
    e.ts = device_ = std::max(device_, at + 10 * kUs);
    e.dur = ns;
    device_ += ns;
    if (step_ == 11) device_ = 0;  // the next rank has a GPU of its own
    e.stream = 7;
    e.step = graph_node == trace::kNull ? step_ : step_ + id_ % 2;  // the GPU may be behind, in a step of its own
    e.graph_node = graph_node;
    t_.add(e);
    last_ = e;
  }

  WrittenTrace t_;
  trace::EventRow last_;
  int64_t node_, rank_ = 0, step_ = 0, id_ = 0, device_ = 0;
};

const ModuleResult& named(const Analysis& a, const std::string& name) {
  for (const ModuleResult& m : a.modules)
    if (m.name == name) return m;
  static const ModuleResult none;
  ADD_FAILURE() << name;
  return none;
}

std::vector<std::string> siblingNotes(const Analysis& a) {
  std::vector<std::string> found;
  for (const std::string& n : a.notes)
    if (n.find(" takes ") != n.npos) found.push_back(n);
  return found;
}

TEST(Modules, HaveTheKernelsOfGraphsThatWereCapturedInThem) {
  for (bool steps : {true, false}) {
    const Analysis a = Modules().replay(steps, {});
    ASSERT_EQ(a.modules.size(), 4u);
    EXPECT_EQ(named(a, "model").forward_us, 100);
    EXPECT_EQ(named(a, "model").backward_us, 110);
    EXPECT_EQ(named(a, "model").own_us, 0);
    EXPECT_EQ(named(a, "head").total_us, 100);
    EXPECT_EQ(named(a, "blocks.0").backward_us, 110);
    EXPECT_EQ(named(a, "old").total_us, 0);
  }
}

TEST(Modules, CountWhatIsLaunchedAndWhatIsReplayedInTheStepsThatHaveBoth) {
  const Analysis a = Modules().replay(true, {4, 10});
  EXPECT_EQ(named(a, "head").total_us, 107);
  EXPECT_EQ(named(a, "blocks.0").backward_us, 110);
  EXPECT_EQ(named(a, "model").total_us, 210) << "on most steps its launch has no range";
}

TEST(Modules, HaveTheKernelsThatWereLaunchedInThem) {
  const Analysis a = Modules().run(-1);
  ASSERT_EQ(a.modules.size(), 12u);
  EXPECT_EQ(a.modules[0].name, "model");
  EXPECT_EQ(a.modules[0].kind, "Gpt");
  EXPECT_DOUBLE_EQ(a.modules[0].forward_us, 5 * 400 + 500);  // not what communicates
  EXPECT_DOUBLE_EQ(a.modules[0].backward_us, 700);           // not what another thread launched
  EXPECT_DOUBLE_EQ(a.modules[0].share_pct, 100);
  const ModuleResult& block = named(a, "blocks.1");
  EXPECT_EQ(block.pattern, "blocks.*");
  EXPECT_DOUBLE_EQ(block.total_us, 400);
  EXPECT_DOUBLE_EQ(block.own_us, 100);
  EXPECT_DOUBLE_EQ(block.host_us, 100);
  EXPECT_DOUBLE_EQ(block.launch_us, 15);
  EXPECT_EQ(block.flops, 4e9);
  EXPECT_TRUE(std::isnan(named(a, "blocks.2").flops)) << "not counted";
  EXPECT_DOUBLE_EQ(named(a, "blocks.4.attn").backward_us, 700);
  EXPECT_EQ(siblingNotes(a).size(), 1u) << "blocks.4.attn, on all ranks";
}

TEST(Modules, ThatTakeLongerThanTheirSiblingsAreNamed) {
  const Analysis a = Modules().run(1);
  EXPECT_EQ(named(a, "blocks.1.attn").slow_ranks, std::vector<int64_t>{1});
  EXPECT_EQ(named(a, "blocks.4.attn").slow_ranks, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_TRUE(named(a, "blocks.1").slow_ranks.empty()) << "what is in it explains it";
  const std::vector<std::string> notes = siblingNotes(a);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_TRUE(
      notes[0].starts_with("blocks.4.attn takes 3.3 × its siblings on all ranks: 1.000 ms of GPU time in a step"))
      << notes[0];
}

TEST(Modules, WithoutSiblingsAreComparedWithOtherRanks) {
  const std::vector<std::string> notes = siblingNotes(Modules().run(-1, 2));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[1],
            "head takes 1.8 × as long on rank 2 as on the others: 900.0 µs of GPU time in a step, 500.0 µs there");
}

TEST(Rate, IsThatOfAllRanksAndTheMedianRank) {
  WrittenTrace t;
  auto counter = [&](int rank, const char* name, double value) {
    trace::CounterRow c;
    c.ts = 1;
    c.rank = rank;
    c.name = t.string(name);
    c.value = std::bit_cast<int64_t>(value);
    t.add(c);
  };
  for (int rank = 0; rank < 3; ++rank)
    for (double step : {1, 2, 3}) {
      counter(rank, "flops", 1e12);
      counter(rank, "mfu %", 40 - 10 * rank + step);
      counter(rank, "samples/s", 8 * step);
      if (rank == 0) counter(rank, "tokens/s", 100);
    }
  const Analysis a = t.analyzed();
  ASSERT_TRUE(a.rate);
  EXPECT_EQ(a.rate->step_flops, 1e12);
  EXPECT_EQ(a.rate->mfu_pct, 32);
  EXPECT_EQ(a.rate->mfu_low_pct, 22);
  EXPECT_EQ(a.rate->mfu_low_rank, 2);
  EXPECT_EQ(a.rate->samples_per_s, 48);
  EXPECT_TRUE(std::isnan(a.rate->tokens_per_s)) << "of one rank only";
}

}  // namespace
}  // namespace tracesmith::analysis
