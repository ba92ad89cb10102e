// tracesmith record: processes that run already, under the probe: their last seconds, or the next ones.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "base/count.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "capture/collect/collector.hpp"
#include "capture/collect/in_flight.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/recording.hpp"
#include "cli/ring_folder.hpp"
#include "cli/run_summary.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string output, keep;
  int64_t pid = 0;
  bool all = false, json = false, in_flight = false, force = false;
  double last_s = 0, duration_s = 0;
};

std::atomic<bool> g_stop{false};  // Ctrl-C: what was recorded so far is kept

/// What the processes wait for right now.
int inFlight(const Options& o) {
  Result<std::string> base = ring::ringFolder();
  if (!base) return fail(base.status());
  std::vector<std::unique_ptr<ring::RingReader>> followed;
  bool simulated = false;
  for (const std::string& path : ringsBelow(*base)) {
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader || (!o.all && (*reader)->shownPid() != o.pid) || !(*reader)->alive()) continue;
    simulated |= (*reader)->header().simulated != 0;
    followed.push_back(std::move(*reader));
  }
  const size_t processes = followed.size();
  if (processes == 0) return fail(Status::notFound("no process is running under the probe"));
  if (simulated) warn("this is simulated data, not a measurement");
  const std::vector<capture::InFlight> all = capture::operationsInFlight(followed);
  const uint64_t now = rawClock();
  auto age = [&](const capture::InFlight& f) { return now > f.enqueue_ns ? now - f.enqueue_ns : 0; };
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    auto known = [&](const char* key, int32_t v) { v >= 0 ? w.field(key, v) : w.key(key).null(); };
    w.beginObject().field("processes", processes).field("simulated", simulated).key("in_flight").beginArray();
    for (const capture::InFlight& f : all) {
      w.beginObject().field("node", f.node).field("pid", f.pid);
      known("rank", f.rank);
      w.field("op", f.op).field("comm", f.comm).field("seq", f.seq).field("bytes", f.bytes);
      known("group_rank", f.group_rank);
      known("group_size", f.group_size);
      known("peer", f.peer);
      w.field("stream", static_cast<uint64_t>(f.stream)).field("age_ns", age(f));
      w.field("stopped", f.stopped).endObject();
    }
    w.endArray().endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  if (all.empty()) {
    std::printf("%s, no operation in flight\n", counted(processes, "process", "processes").c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> table = {
      {"rank", "pid", "operation", "communicator", "number", "bytes", "age"}};
  for (const capture::InFlight& f : all)
    table.push_back({f.rank < 0 ? "" : std::to_string(f.rank), std::to_string(f.pid), f.op, f.comm,
                     std::to_string(f.seq), humanBytes(static_cast<uint64_t>(f.bytes)),
                     humanNs(static_cast<double>(age(f))), f.stopped ? "stopped" : ""});
  std::printf("%s", tableText(table).c_str());
  return 0;
}

int record(const Options& o) {
  Result<std::string> base = ring::ringFolder();
  if (!base) return fail(base.status());
  trace::WriterOptions options;
  options.whole_or_absent = true;
  Result<Recording> recording = Recording::create(o.output, o.keep, options);
  if (!recording) return fail(recording.status());
  capture::Collector collector(recording->writer(), capture::hostName());
  size_t busy = 0;
  const uint64_t begin = rawClock();  // whoever sees us attached may rely on it that what comes now is recorded
  for (const std::string& path : ringsBelow(*base)) {
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader || (!o.all && (*reader)->shownPid() != o.pid) || !(*reader)->alive()) continue;
    if (o.duration_s > 0 && (*reader)->attachedReader()) {
      ++busy;  // `tracesmith run` reads it: a second reader would take its records
      continue;
    }
    if (Status s = collector.follow(path, o.duration_s > 0); !s) warn(s.message());
  }
  if (collector.stats().processes == 0)
    return fail(Status::notFound(
        busy ? "the process is already being recorded"
             : "no process is running under the probe; start one with `tracesmith run --flight SECONDS -- CMD`"));
  Result<size_t> taken = size_t{0};
  if (o.last_s > 0) {
    const uint64_t now = rawClock(), span = static_cast<uint64_t>(o.last_s * 1e9);
    collector.leaveOutBefore(now > span ? now - span : 0);
    taken = collector.snapshot();
  } else {
    Progress progress("recording");
    const auto span = static_cast<uint64_t>(o.duration_s * 1e9);
    collector.leaveOutBefore(begin);
    for (int n : {SIGINT, SIGTERM}) ::signal(n, [](int) { g_stop = true; });
    while (taken && !g_stop && collector.alive() > 0 && rawClock() - begin < span) {
      taken = collector.drain();
      if (Status s = recording->keepUp(collector); !s) return fail(s);
      progress.update(rawClock() - begin, span);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (taken) taken = collector.drain();
  }
  if (!taken) return fail(taken.status());
  if (Status s = collector.finish(); !s) return fail(s);
  if (Status s = recording->close(); !s) return fail(s);
  const capture::CollectorStats& s = collector.stats();
  if (s.simulated) warn("this is simulated data, not a measurement");
  const std::string text = o.json ? jsonOf(s, o.output) : o.output + ": " + countsOf(s);
  std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace

void addRecord(Command& app) {
  auto o = std::make_shared<Options>();
  Command command =
      app.command("record", "Save the last seconds, or the next ones, of processes running under the probe");
  command.option("-o,--output", o->output, "Trace to write").type("FILE.sbt");
  command.option("--pid", o->pid, "Record this process");
  command.flag("--all", o->all, "Record every process of this user under the probe");
  command.option("--last", o->last_s, "Save the last SECONDS, as far back as the ring reaches")
      .type("SECONDS")
      .check(positive());
  command.option("-d,--duration", o->duration_s, "Save the next SECONDS").type("SECONDS").check(positive());
  Recording::addKeep(command, o->keep);
  addForce(command, o->force);
  command.flag("--in-flight", o->in_flight,
               "Print the NCCL operations in flight and their age, instead of writing a trace");
  command.flag("--json", o->json, "Print the summary, or the operations, as JSON");
  command.footer(
      "If an operation stays in flight on some ranks and is missing on another, they wait for that rank. CUPTI "
      "delivers\nkernels late, so operations just before the waiting one may be listed too.\n\nExample:  tracesmith "
      "run --flight 30 -- python train.py &\n          tracesmith record --all --last 30 -o slow-step.sbt\n          "
      "tracesmith record --all --in-flight");
  command.run(
      [o]() -> Status {
        const int ways = (o->last_s > 0) + (o->duration_s > 0) + o->in_flight;
        if (ways != 1) return Status::invalid("give one of --last SECONDS, --duration SECONDS or --in-flight");
        if (o->in_flight != o->output.empty())
          return Status::invalid(o->in_flight ? "--in-flight writes no trace" : "-o FILE.sbt is required");
        if (o->all == (o->pid != 0)) return Status::invalid("give either --pid PID or --all");
        return checkOutput(o->output, {}, o->force);
      },
      [o] { return o->in_flight ? inFlight(*o) : record(*o); });
}

}  // namespace tracesmith::cli
