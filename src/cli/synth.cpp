// tracesmith synth: a realistic training trace without a GPU.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/count.hpp"
#include "base/text.hpp"
#include "capture/sim/live.hpp"
#include "capture/sim/rows.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string output;
  sim::JobConfig job;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
  std::vector<std::string> faults;
  bool live = false, force = false;
  sim::LiveConfig run;
};

std::atomic<bool> g_stop{false};

int synth(const Options& o) {
  auto start = std::chrono::steady_clock::now();
  if (Status s = sim::synthesize(o.job, o.output, o.threads); !s) return fail(s);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  sim::Job job(o.job);
  std::error_code ignored;
  auto size = static_cast<uint64_t>(std::filesystem::file_size(o.output, ignored));
  double per_event = static_cast<double>(size) / static_cast<double>(o.job.events);
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject()
        .field("file", o.output)
        .field("events", o.job.events)
        .field("ranks", o.job.ranks)
        .field("nodes", job.nodes())
        .field("steps", job.steps());
    w.field("bytes", size).field("bytes_per_event", per_event).field("seconds", seconds);
    if (job.slowRank() >= 0) w.field("slow_rank", job.slowRank());
    if (job.slowNode() >= 0) w.field("slow_node", job.slowNode());
    w.endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  std::printf("%s: %s of %s on %s, %s, %s (%.2f bytes/event) in %.1f s\n", o.output.c_str(),
              counted(o.job.events, "event").c_str(), counted(static_cast<uint64_t>(o.job.ranks), "rank").c_str(),
              counted(static_cast<uint64_t>(job.nodes()), "node").c_str(),
              counted(static_cast<uint64_t>(job.steps()), "step").c_str(), humanBytes(size).c_str(), per_event,
              seconds);
  return 0;
}

/// The job in real time, into rings: for `tracesmith record`, `tracesmith run` and agents.
int live(Options& o) {
  o.run.job.ranks = o.job.ranks;
  o.run.job.gpus_per_node = o.job.gpus_per_node;
  o.run.job.pipeline = o.job.pipeline;
  o.run.job.tensor = o.job.tensor;
  o.run.job.microbatches = o.job.microbatches;
  o.run.job.stages_only = o.job.stages_only;
  o.run.job.in_turn = o.job.in_turn;
  o.run.job.chunks = o.job.chunks;
  o.run.job.sharded = o.job.sharded;
  o.run.job.seed = o.job.seed;
  o.run.job.faults = o.job.faults;
  const char* folder = std::getenv("TRACESMITH_DIR");
  const char* reader = std::getenv("TRACESMITH_READER");
  o.run.keep_rings = folder && *folder;  // `tracesmith run` reads them after us
  o.run.reader = reader ? static_cast<uint32_t>(std::max(0, std::atoi(reader))) : 0;
  o.run.wait_for_reader = o.run.speed == 0;
  for (int n : {SIGINT, SIGTERM}) ::signal(n, [](int) { g_stop = true; });
  Result<std::unique_ptr<sim::LiveJob>> job = sim::LiveJob::create(o.run);
  if (!job) return fail(job.status());
  if (!o.json)
    std::fprintf(stderr, "simulating %s, %.0f ms per step%s\n",
                 counted(static_cast<uint64_t>(o.job.ranks), "GPU").c_str(), o.run.step_ms,
                 o.run.steps ? "" : "; press Ctrl-C to stop");
  (*job)->run(g_stop);
  const auto steps = (*job)->stepsDone();
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().field("ranks", o.job.ranks).field("steps", steps).field("hangs", (*job)->hangs()).endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::fprintf(stderr, "%s%s\n", counted(steps, "step").c_str(), (*job)->hangs() ? ", then it hung" : "");
  }
  return 0;
}

}  // namespace

void addSynth(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("synth", "Generate a realistic training trace without a GPU");
  command.option("-o,--output", o->output, "Trace to write").type("FILE.sbt");
  command.option("--events", o->job.events, "Events to generate")
      .showDefault()
      .check(range(uint64_t{1}, uint64_t{100'000'000'000}));
  command.option("--ranks", o->job.ranks, "Ranks of the job, one GPU each").showDefault().check(range(1, 65536));
  command.option("--gpus-per-node", o->job.gpus_per_node, "GPUs on each node").showDefault().check(range(1, 1024));
  command.option("--pipeline", o->job.pipeline, "Pipeline stages; microbatches are sent from one to the next")
      .showDefault()
      .check(range(1, 1024));
  command
      .option("--tensor", o->job.tensor,
              "Ranks per tensor-parallel group, which reduces every microbatch; 0: none, the ranks of a node share "
              "some gradients")
      .showDefault()
      .check(range(0, 1024));
  command.option("--microbatches", o->job.microbatches, "Microbatches per step, with --pipeline or --tensor")
      .showDefault()
      .check(range(1, 64));
  command.flag("--stages-only", o->job.stages_only,
               "With --pipeline: stages exchange microbatches and nothing else; one rank or tensor group per stage");
  command.flag(
      "--in-turn", o->job.in_turn,
      "With --pipeline: stages run forward and backward passes in turn (1F1B) instead of all forward passes first");
  command
      .option("--chunks", o->job.chunks,
              "With --in-turn: parts of the model on every stage; a microbatch goes round all stages for each of them "
              "(interleaved 1F1B)")
      .showDefault()
      .check(range(1, 16));
  command.flag("--sharded", o->job.sharded,
               "Shard the parameters: every layer is gathered before it is used, and its gradients are scattered");
  command.option("--seed", o->job.seed, "Random seed; the same seed gives the same bytes").showDefault();
  command.option("--threads", o->threads, "Threads").showDefault().check(range(1, 256));
  command
      .option("--fault", o->faults,
              "Faults to simulate instead of the default ones: slow-gpu=RANK[:FACTOR], other-gpu=RANK[:FACTOR] (a "
              "slower model), heavy-stage=STAGE[:FACTOR] (larger layers, with --pipeline), slow-link=NODE[:FACTOR], "
              "late=RANK[:MS] (slow data loader), jitter=PERCENT, hang=RANK[:STEP] (with --live), "
              "checkpoint=STEPS[:MS] (rank 0 saves while all wait), from=STEP (when the faults start), none")
      .type("FAULT");
  command.flag("--live", o->live,
               "Run the job in real time instead, each rank with a ring like a real process under the probe");
  command.option("--steps", o->run.steps, "Live: number of steps; 0 runs until stopped").showDefault();
  command.option("--step-ms", o->run.step_ms, "Live: duration of a step, in ms").showDefault().check(range(0.1, 1e6));
  command.option("--operations", o->run.job.operations, "Live: kernels, copies and collectives per rank and step")
      .showDefault()
      .check(range(24, 100000));
  command
      .option(
          "--host-lag", o->run.host_lag_ms,
          "Live: the host's records come this many ms later than the GPU's, as they do when the collector reads one "
          "thread's records after another's")
      .type("MS")
      .check(nonNegative());
  command.option("--speed", o->run.speed, "Live: simulated seconds per second; 0 runs as fast as the rings are read")
      .showDefault()
      .check(nonNegative());
  addForce(command, o->force);
  command.flag("--json", o->json, "Print the summary as JSON");
  command.footer(
      "A data-parallel job: steps of forward, backward and optimizer; kernels with about 3,000 names in a "
      "Zipf\ndistribution, their launches, copies, and collectives that end together on all ranks. Without --fault, "
      "one rank\nbecomes slow halfway and one node has slow links. Each node has its own clock. The true values are in "
      "the tables\nmetadata and clocks.\n\nExamples:  tracesmith synth -o job.sbt --events 1000000 --ranks 32 --seed 7 "
      "--fault slow-gpu=5:1.2\n           tracesmith run -o live.sbt -- tracesmith synth --live --ranks 8 --steps 100 "
      "--fault slow-gpu=3\n           tracesmith synth -o pp.sbt --ranks 32 --pipeline 4 --tensor 2 --fault "
      "slow-gpu=9:1.1");
  command.run(
      [o]() -> Status {
        if (o->live == !o->output.empty()) return Status::invalid("give either -o FILE.sbt or --live");
        if (!o->faults.empty() || o->live) o->job.faults = sim::Faults::none();
        if (o->live) o->job.faults.clocks = false;
        for (const std::string& fault : o->faults)
          if (Status s = sim::addFault(o->job.faults, fault); !s) return s;
        // What was simulated can be simulated again.
        Result<std::unique_ptr<trace::Reader>> there = trace::Reader::open(o->output);
        if (!there || !trace::isSimulated(**there))
          if (Status s = checkOutput(o->output, {}, o->force); !s) return s;
        return sim::checkLayout(o->job);
      },
      [o] { return o->live ? live(*o) : synth(*o); });
}

}  // namespace tracesmith::cli
