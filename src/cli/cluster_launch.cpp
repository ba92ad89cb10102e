// tracesmith cluster launch: a job on the nodes, through their agents.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>
#include <tuple>

#include "base/count.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/output.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using cluster::LaunchedRank;
using cluster::RankEnd;

struct Options : ClientCommand {
  cluster::LaunchOptions launch;
  std::string nodes = "all", logs;
  bool plain = false;
};

/// Ctrl-C and the like end the job; the second time we do not wait for it. Made before there are other threads: they
/// must not get the signals.
class Interrupts {
 public:
  Interrupts() {
    ::sigemptyset(&set_);
    for (int n : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaddset(&set_, n);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void watch(cluster::Client& client) {
    thread_ = std::thread([this, &client] {
      for (int number = 0; ::sigwait(&set_, &number) == 0 && number != SIGUSR1;) {
        if (count_++ == 0) {
          warn("ending all ranks; once more to leave at once");
          client.stopLaunch();
        } else {
          client.cancel();
        }
      }
    });
  }
  ~Interrupts() { end(); }
  /// The client may go.
  void end() {
    if (!thread_.joinable()) return;
    ::pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  int count() const { return count_; }

 private:
  sigset_t set_{};
  std::atomic<int> count_{0};
  std::thread thread_;
};

/// "rank 2 on node b exited with code 3"
std::string sentence(const RankEnd& end) {
  const std::string who = "rank " + std::to_string(end.rank) + " on node " + end.node;
  if (!end.problem.empty()) return who + ": " + end.problem;
  if (end.signal)
    return who + " was ended by signal " + std::to_string(*end.signal) + " (" +
           ::strsignal(static_cast<int>(*end.signal)) + ")";
  return who + " exited with code " + std::to_string(end.code.value_or(0));
}

bool good(const RankEnd& end) { return end.code && *end.code == 0; }

/// Prints what the ranks print, line by line, and keeps it in a folder.
class Printer final : public cluster::LaunchFollower {
 public:
  Printer(std::string logs, bool json) : logs_(std::move(logs)), json_(json) {}

  void started(const std::vector<LaunchedRank>& ranks) override {
    ranks_ = ranks;
    std::fprintf(stderr, "tracesmith: started %s on %s\n", counted(ranks.size(), "rank").c_str(),
                 counted(nodeCount(), "node").c_str());
  }
  void output(uint32_t rank, bool error, std::string_view text) override {
    keep(rank, error, text);
    std::string& line = lines_[{rank, error}];
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      line += text.substr(at, std::min(end, text.size()) - at);
      if (end == text.npos) {
        if (line.size() < kLongestLine) return;
        at = text.size();
      } else {
        at = end + 1;
      }
      print(rank, error, line);
      line.clear();
    }
  }
  void ended(const RankEnd& end) override {
    for (const bool error : {false, true})
      if (std::string& rest = lines_[{end.rank, error}]; !rest.empty()) {
        print(end.rank, error, rest);
        rest.clear();
      }
    if (!good(end) && !first_failure_ && !end.terminated) {
      first_failure_ = end;
      std::fprintf(stderr, "tracesmith: %s\n", sentence(end).c_str());
    }
    ends_.push_back(end);
  }

  /// The one that failed by itself before any other.
  const std::optional<RankEnd>& firstFailure() const { return first_failure_; }
  bool allGood() const {
    return !ranks_.empty() && ends_.size() == ranks_.size() && std::all_of(ends_.begin(), ends_.end(), good);
  }
  size_t terminated() const {
    return static_cast<size_t>(
        std::count_if(ends_.begin(), ends_.end(), [](const RankEnd& e) { return e.terminated; }));
  }
  const Status& keeping() const { return keeping_; }
  std::string json() const {
    std::string text;
    JsonWriter w(text);
    w.beginObject().key("ranks").beginArray();
    for (const LaunchedRank& rank : ranks_) writeJson(w, rank);
    w.endArray().key("ends").beginArray();
    for (const RankEnd& end : ends_) writeJson(w, end);
    w.endArray().key("first_failure");
    first_failure_ ? void(writeJson(w, *first_failure_)) : void(w.null());
    w.endObject();
    return text;
  }

 private:
  static constexpr size_t kLongestLine = 64u << 10;

  size_t nodeCount() const {
    std::map<std::string, int> nodes;
    for (const LaunchedRank& r : ranks_) ++nodes[r.node];
    return nodes.size();
  }
  /// Standard output of JSON is JSON alone.
  void print(uint32_t rank, bool error, const std::string& line) const {
    std::FILE* to = error || json_ ? stderr : stdout;
    std::fprintf(to, "[rank %u] %s\n", rank, line.c_str());
    std::fflush(to);
  }
  void keep(uint32_t rank, bool error, std::string_view text) {
    if (logs_.empty() || !keeping_) return;
    auto file = files_.find({rank, error});
    if (file == files_.end()) {
      Result<File> made = File::create(logs_ + "/rank-" + std::to_string(rank) + (error ? ".err" : ".out"));
      if (!made) {
        keeping_ = made.status();
        return;
      }
      file = files_.emplace(std::pair(rank, error), std::move(*made)).first;
    }
    keeping_ = file->second.write(text);
  }

  const std::string logs_;
  const bool json_;
  std::vector<LaunchedRank> ranks_;
  std::vector<RankEnd> ends_;
  std::optional<RankEnd> first_failure_;
  std::map<std::pair<uint32_t, bool>, std::string> lines_;  // not complete yet
  std::map<std::pair<uint32_t, bool>, File> files_;
  Status keeping_;
};

int launch(Options o) {
  if (o.plain) o.launch.mode.clear();
  if (o.nodes != "all")
    for (size_t at = 0; at <= o.nodes.size();) {
      const size_t end = std::min(o.nodes.find(',', at), o.nodes.size());
      if (end > at) o.launch.nodes.push_back(o.nodes.substr(at, end - at));
      at = end + 1;
    }
  std::error_code error;
  if (!o.logs.empty()) std::filesystem::create_directories(o.logs, error);
  if (error) return fail(Status::io("cannot create " + o.logs + ": " + error.message()));
  if (o.launch.folder.empty()) o.launch.folder = std::filesystem::current_path(error).string();
  Interrupts interrupts;
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  Printer printer(o.logs, o.json);
  interrupts.watch(**client);
  const Status status = (*client)->launch(o.launch, printer);
  interrupts.end();
  if (o.json && status) std::printf("%s\n", printer.json().c_str());
  if (!printer.keeping()) warn("the logs are not complete: " + printer.keeping().message());
  if (!status) return fail(interrupts.count() > 1 ? Status::cancelled("left; the agents end the ranks") : status);
  if (printer.allGood()) return 0;
  if (const std::optional<RankEnd>& first = printer.firstFailure()) {
    const size_t others = printer.terminated();
    return fail(Status::io(
        "the job failed: " + sentence(*first) +
        (others == 0 ? "" : "; " + counted(others, "other rank") + (others == 1 ? " was" : " were") + " ended")));
  }
  return fail(Status::cancelled("the job was ended"));
}

}  // namespace

void addClusterLaunch(Command& cluster) {
  auto o = std::make_shared<Options>();
  Command command = cluster.command("launch", "Start a job on the nodes, and follow it");
  command.option("--nodes", o->nodes, "Nodes to start it on, in the order of ranks; all: those that are connected")
      .type("NODE,...")
      .showDefault();
  command.option("--nproc", o->launch.per_node, "Ranks for each node (default: one for each GPU, at least one)")
      .type("N")
      .check(range(1, 1024));
  for (const auto& [name, size, help] :
       {std::tuple{"--tensor", &o->launch.tensor,
                   "Ranks of a tensor-parallel group; with --data and --pipeline, ranks "
                   "are placed as by `tracesmith devices --place`"},
        {"--data", &o->launch.data, "Ranks of a data-parallel group"},
        {"--pipeline", &o->launch.pipeline, "Stages of a pipeline"}})
    command.option(name, *size, help).type("N").check(range(1, 1024));
  command.option("--master-port", o->launch.master_port, "Port on the first node where the ranks meet (MASTER_PORT)")
      .showDefault()
      .check(range(1, 65535));
  command
      .option("--master-addr", o->launch.master_addr,
              "Address of the first node, for the other ranks (MASTER_ADDR; default: as the master sees it)")
      .type("HOST");
  command.option("--env", o->launch.environment, "Another variable for the ranks").type("NAME=VALUE");
  command.option("--folder", o->launch.folder, "Folder on the nodes to start in (default: this one)").type("FOLDER");
  command.option("-o,--output", o->logs, "Keep what each rank prints, in FOLDER/rank-N.out and .err").type("FOLDER");
  command.option("--grace", o->launch.grace_s, "Time between SIGTERM and SIGKILL for ranks that must end")
      .type("SECONDS")
      .showDefault()
      .check(range(0.0, 3600.0));
  command.option("--mode", o->launch.mode, "What the probe records, as for `tracesmith run`")
      .showDefault()
      .check(oneOf({"light", "default", "full", "watch"}));
  command.flag("--no-probe", o->plain, "Start the ranks without the probe");
  o->add(command);
  command.positional("COMMAND", o->launch.command, "Command to run, after --").required().type("CMD");
  command.positionalsLast();
  command.footer(
      "It needs the role admin, and agents that were started with --allow-launch. The ranks run as the users who run\n"
      "the agents. If one fails, the others are ended; Ctrl-C ends all. The exit code is 0 if all ranks exited with "
      "0.\n\nExample:  tracesmith cluster launch --nodes a,b --nproc 8 -o logs -- python train.py");
  command.run(
      [o]() -> Status {
        for (const std::string& variable : o->launch.environment)
          if (variable.find('=') == std::string::npos || variable.front() == '=')
            return Status::invalid("--env: give NAME=VALUE, not '" + variable + "'");
        return {};
      },
      [o] { return launch(*o); });
}

}  // namespace tracesmith::cli
