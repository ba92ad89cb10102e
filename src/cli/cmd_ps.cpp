// tracesmith ps and cluster ps: the processes that matter to a job: on GPUs, under the probe, of Python.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/places.hpp"
#include "cli/target.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using model::ProcessEntry;

std::string jobText(const ProcessEntry& p) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() || text.empty() ? "" : ", ") + text; };
  add(printable(p.job_step.empty() ? p.job : p.job + "." + p.job_step));
  if (!p.slurm_job.empty() && p.slurm_job != p.job) add("Slurm " + printable(p.slurm_job));
  if (!p.pod_name.empty())
    add("pod " + printable(p.pod_namespace.empty() ? p.pod_name : p.pod_namespace + "/" + p.pod_name));
  else if (!p.pod.empty())
    add("pod " + printable(p.pod));
  if (!p.container.empty()) add("container " + printable(p.container));
  return out;
}

std::string orDash(const std::string& s) { return s.empty() ? "-" : s; }

std::vector<std::string> rowOf(const ProcessEntry& p) {
  std::string gpus;
  for (const uint32_t g : p.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(g);
  char cpu[32] = "-";
  if (p.cpu_percent) std::snprintf(cpu, sizeof cpu, "%.0f", *p.cpu_percent);
  return {std::to_string(p.pid),
          orDash(printable(p.user)),
          p.rank ? std::to_string(*p.rank) : "-",
          p.step ? std::to_string(*p.step) : "-",
          p.step_age_s ? humanNs(*p.step_age_s * 1e9) : "-",
          orDash(gpus),
          p.gpu_memory_bytes ? humanBytes(static_cast<uint64_t>(std::max(0.0, *p.gpu_memory_bytes))) : "-",
          cpu,
          orDash(printable(p.state)),
          orDash(printable(p.probe)),
          orDash(jobText(p)),
          shorten(printable(p.command), 60)};
}

void print(const model::ClusterProcesses& answer, bool nodes) {
  std::vector<std::vector<std::string>> rows = {
      {"pid", "user", "rank", "step", "for", "GPU", "GPU memory", "CPU %", "state", "probe", "job", "command"}};
  if (nodes) rows[0].insert(rows[0].begin(), "node");
  for (const model::NodeProcesses& node : answer.nodes)
    for (const ProcessEntry& p : node.processes) {
      rows.push_back(rowOf(p));
      if (nodes) rows.back().insert(rows.back().begin(), printable(node.node));
    }
  if (rows.size() == 1)
    std::printf("no processes on GPUs, under the probe or of Python\n");
  else
    std::printf("%s", tableText(rows).c_str());
}

int run(const Target& o) {
  const Result<model::ClusterProcesses> answer = o.ask({});
  if (!answer) return fail(answer.status());
  if (!o.json) {
    warnOfMissing(*answer);
    print(*answer, !o.local());
  } else if (o.local()) {
    std::string out;
    JsonWriter json(out);
    json.beginArray();
    for (const ProcessEntry& p : answer->nodes[0].processes) model::writeJson(json, p);
    json.endArray();
    std::printf("%s\n", out.c_str());
  } else {
    std::printf("%s\n", model::toJson(*answer).c_str());
  }
  return 0;
}

constexpr const char* kColumns =
    "State: R runs, S sleeps, D cannot be interrupted, T is stopped. \"for\": how long its step has lasted. Steps and\n"
    "ranks of other users' processes, and their GPU memory in containers, may need root.\n\n";

void add(Command& app, const char* name, const char* summary, const char* example) {
  auto o = std::make_shared<Target>();
  Command command = app.command(name, summary);
  o->add(command);
  addPlaces(command, o->places);
  command.footer((std::string(kColumns) + example).c_str());
  command.run([o] { return o->check(); }, [o] { return run(*o); });
}

void addOfCluster(Command& cluster, const char* name, const char* summary, const char* example) {
  auto o = std::make_shared<Target>();
  o->text = "all";
  Command command = cluster.command(name, summary);
  o->ClientCommand::add(command);
  command.footer((std::string(kColumns) + example).c_str());
  command.run([o] { return run(*o); });
}

}  // namespace

void addPs(Command& app) {
  add(app, "ps", "List this machine's GPU, traced and Python processes",
      "Example:  tracesmith ps --json | jq '.[] | select(.rank != null)'");
  add(app, "list", "The same as ps", "Example:  tracesmith list");
}

void addClusterPs(Command& cluster) {
  addOfCluster(cluster, "ps", "List the GPU, traced and Python processes of all nodes",
               "Example:  tracesmith cluster ps --json | jq '.nodes[].processes[] | select(.state == \"D\")'");
  addOfCluster(cluster, "list", "The same as cluster ps", "Example:  tracesmith cluster list");
}

}  // namespace tracesmith::cli
