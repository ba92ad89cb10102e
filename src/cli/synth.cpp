// tracesmith synth: a realistic training trace without a GPU.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/text.hpp"
#include "capture/sim/rows.hpp"
#include "cli/commands.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string output;
  sim::JobConfig job;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
};

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
    w.field("bytes", size)
        .field("bytes_per_event", per_event)
        .field("seconds", seconds)
        .field("slow_rank", job.slowRank())
        .field("slow_node", job.slowNode())
        .endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  std::printf("%s: %s events of %d ranks on %d nodes, %d steps, %s (%.2f bytes/event) in %.1f s\n", o.output.c_str(),
              humanCount(o.job.events).c_str(), o.job.ranks, job.nodes(), job.steps(), humanBytes(size).c_str(),
              per_event, seconds);
  return 0;
}

}  // namespace

void addSynth(CLI::App& app, Run& run) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("synth", "Make a realistic training trace without a GPU");
  command->add_option("-o,--output", o->output, "Trace to write")->required()->type_name("FILE.sbt");
  command->add_option("--events", o->job.events, "Rows of events to make")
      ->capture_default_str()
      ->check(CLI::Range(1ull, 100'000'000'000ull));
  command->add_option("--ranks", o->job.ranks, "Ranks of the job, one GPU each")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_option("--gpus-per-node", o->job.gpus_per_node, "GPUs on each node")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("--seed", o->job.seed, "The same seed gives the same bytes")->capture_default_str();
  command->add_option("--threads", o->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 256));
  command->add_flag("--json", o->json, "Print the summary as JSON");
  command->footer(
      "A data-parallel job: steps of forward, backward and optimizer; kernels with about 3,000 names in Zipf\n"
      "proportion, their launches, copies, and collectives that end together on all ranks. One rank turns slow\n"
      "halfway, one node has slow links, each node has its own clock; the truth is in the tables metadata and "
      "clocks.\n\n"
      "Example:  tracesmith synth -o job.sbt --events 1000000 --ranks 32 --seed 7");
  command->callback([o, &run] { run = [o] { return synth(*o); }; });
}

}  // namespace tracesmith::cli
