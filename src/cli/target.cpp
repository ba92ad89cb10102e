#include "cli/target.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "access/names.hpp"
#include "base/text.hpp"
#include "hardware/latest.hpp"
#include "process/look.hpp"

namespace tracesmith::cli {
namespace {

constexpr int kSampleMs = 50;

using Meaning = Target::Meaning;

Result<Meaning> meaningOf(const std::string& text) {
  using Kind = Meaning::Kind;
  int64_t number = 0;
  if (text.empty() || text == "here") return Meaning{};
  if (text == "all") return Meaning{Kind::cluster, 0, ""};
  if (parseInt(text, number) && number > 0) return Meaning{Kind::process, number, ""};
  if (text.starts_with("rank:")) {
    if (!parseInt(text.substr(5), number) || number < 0)
      return Status::invalid("-t rank:R needs the number of a rank, not \"" + text.substr(5) + "\"");
    return Meaning{Kind::rank, number, ""};
  }
  if (text.starts_with("node:")) {
    TS_TRY(access::checkName("node", text.substr(5)));
    return Meaning{Kind::node, 0, text.substr(5)};
  }
  const Result<access::Address> agent = access::parseAddress(text, cluster::kAgentPort);
  if (!agent || text.find(':') == std::string::npos)
    return Status::invalid("-t takes a process id, here, HOST:PORT of an agent, rank:R, node:NAME or all, not \"" +
                           text + "\"");
  return Meaning{Kind::agent, 0, agent->text()};
}

model::NodeProcesses lookHere(const hardware::Places& places, const model::ProcessQuery& query) {
  hardware::SamplerOptions sampling;
  sampling.places = places;
  sampling.host = false;
  sampling.fast_ms = sampling.slow_ms = kSampleMs;
  hardware::Latest latest;
  hardware::Sampler sampler(sampling, latest);
  if (!query.stacks && !query.settings && !query.action && !query.sample) sampler.start();
  capture::ProcessesNow recorded;
  return process::lookAt(places.root, query, recorded.read(), [&] {
    (void)sampler.waitForInventory(sampling.hang_ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * kSampleMs));
    return latest.state();
  });
}

}  // namespace

void Target::add(Command& command) {
  places = hardware::Places::fromEnvironment();
  command
      .option("-t,--target", text,
              "Look there: a process of this machine, an agent's machine, or a rank, a node or all of the --master's "
              "cluster (default: this machine)")
      .type("PID|here|HOST:PORT|rank:R|node:NAME|all");
  ClientCommand::add(command);
}

Status Target::check() const { return meaningOf(text).status(); }

Result<Target::Meaning> Target::meaning() const { return meaningOf(text); }

bool Target::local() const {
  const Result<Meaning> meaning = meaningOf(text);
  return meaning && (meaning->kind == Meaning::Kind::machine || meaning->kind == Meaning::Kind::process);
}

Result<model::ClusterProcesses> Target::ask(model::ProcessQuery query) const {
  Result<Meaning> meaning = meaningOf(text);
  if (!meaning) return meaning.status();
  using Kind = Meaning::Kind;
  if (meaning->kind == Kind::process) query.pids.push_back(meaning->number);
  if (meaning->kind == Kind::rank) query.ranks.push_back(meaning->number);
  if (meaning->kind == Kind::node) query.nodes.push_back(meaning->name);
  if (local()) {
    model::ClusterProcesses here;
    here.nodes.push_back(lookHere(places, query));
    return here;
  }
  ClientCommand to = *this;
  if (meaning->kind == Kind::agent) {
    to.client.master = meaning->name;
    to.client.agent = true;
  }
  Result<std::unique_ptr<cluster::Client>> connection = to.connect();
  if (!connection) return connection.status();
  return (*connection)->processes(query);
}

void warnOfMissing(const model::ClusterProcesses& answer) {
  for (const model::NodeProcesses& node : answer.nodes)
    if (!node.problem.empty()) warn((node.node.empty() ? "" : node.node + ": ") + node.problem);
}

}  // namespace tracesmith::cli
