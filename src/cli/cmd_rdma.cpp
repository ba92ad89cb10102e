// tracesmith rdma and cluster rdma: InfiniBand and RoCE ports, what goes over them, and whose it is.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/places.hpp"
#include "cli/screen.hpp"
#include "cli/target.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"
#include "process/rdma.hpp"

namespace tracesmith::cli {
namespace {

using model::RdmaPort;

struct Options : Target {
  std::string device;
  bool once = false;
  int interval_ms = 1000;
};

std::string number(const char* format, double v) {
  char text[48];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

std::string bytesPerSecond(const std::optional<double>& v) {
  return v ? humanBytes(static_cast<uint64_t>(std::max(0.0, *v))) + "/s" : "-";
}

std::string perSecond(const std::optional<double>& v) {
  return v ? humanCount(static_cast<uint64_t>(std::max(0.0, *v))) : "-";
}

/// "3, 4 (pid 17)": ranks, and processes that have none. In brackets where it is a guess.
std::string usersText(const RdmaPort& port) {
  std::string out;
  for (const model::RdmaUser& u : port.users) {
    const std::string who = u.rank ? std::to_string(*u.rank) : "pid " + std::to_string(u.pid);
    out += (out.empty() ? "" : ", ") + (u.guessed ? "(" + who + ")" : who);
  }
  return out.empty() ? "-" : out;
}

struct Sum {
  double total = 0;
  std::optional<double> per_s;
};

Sum sumOf(const RdmaPort& port, bool congestion) {
  Sum sum;
  for (const model::RdmaCounter& c : port.counters) {
    if (c.congestion != congestion) continue;
    sum.total += c.total;
    if (c.per_s) sum.per_s = sum.per_s.value_or(0) + *c.per_s;
  }
  return sum;
}

std::vector<std::string> portRow(const RdmaPort& p) {
  const Sum congestion = sumOf(p, true), errors = sumOf(p, false);
  std::string gpus;
  for (const uint32_t g : p.near_gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(g);
  return {printable(p.name),
          p.state.empty() ? "-" : printable(p.state),
          p.link_layer.empty() ? "-" : printable(p.link_layer),
          p.speed_gbps ? number("%g", *p.speed_gbps) : "-",
          bytesPerSecond(p.rx_bytes_per_s),
          bytesPerSecond(p.tx_bytes_per_s),
          perSecond(p.tx_wait_ticks_per_s),
          perSecond(congestion.per_s),
          perSecond(errors.per_s),
          humanCount(static_cast<uint64_t>(std::max(0.0, errors.total))),
          gpus.empty() ? "-" : gpus,
          usersText(p)};
}

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// Ports, and below them the counters that are not zero.
std::vector<std::string> linesOf(const model::ClusterProcesses& answer, bool nodes) {
  std::vector<std::vector<std::string>> ports = {{"port", "state", "link", "Gbit/s", "in", "out", "wait/s",
                                                  "congestion/s", "errors/s", "errors", "GPUs", "ranks"}};
  std::vector<std::vector<std::string>> counters = {{"port", "counter", "of", "total", "per second"}};
  const auto add = [&](std::vector<std::vector<std::string>>& table, std::vector<std::string> row,
                       const std::string& node) {
    if (nodes) row.insert(row.begin(), printable(node));
    table.push_back(std::move(row));
  };
  if (nodes)
    for (auto* table : {&ports, &counters}) (*table)[0].insert((*table)[0].begin(), "node");
  for (const model::NodeProcesses& node : answer.nodes)
    for (const RdmaPort& p : node.rdma) {
      add(ports, portRow(p), node.node);
      for (const model::RdmaCounter& c : p.counters)
        if (c.total > 0)
          add(counters,
              {printable(p.name), printable(c.name), c.congestion ? "congestion" : "errors",
               humanCount(static_cast<uint64_t>(c.total)), perSecond(c.per_s)},
              node.node);
    }
  std::string text = tableText(ports);
  if (counters.size() > 1) text += "\n" + tableText(counters);
  return linesOf(text);
}

std::string jsonOf(const model::ClusterProcesses& answer) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().key("nodes").beginArray();
  for (const model::NodeProcesses& n : answer.nodes) {
    json.beginObject().key("node");
    n.node.empty() ? json.null() : json.value(n.node);
    json.key("problem");
    n.problem.empty() ? json.null() : json.value(n.problem);
    json.key("ports").beginArray();
    for (const RdmaPort& p : n.rdma) model::writeJson(json, p);
    json.endArray().endObject();
  }
  json.endArray().endObject();
  return out;
}

/// Asks the target again and again. This machine's ports are kept open meanwhile.
class Asker {
 public:
  explicit Asker(const Options& o) : o_(o) {
    if (!o.local()) return;
    hardware::SamplerOptions sampling;
    sampling.places = o.places;
    sampling.host = false;
    ports_ = std::make_unique<process::RdmaWatch>(o.places.root);
    sampler_ = std::make_unique<hardware::Sampler>(sampling, latest_);
    sampler_->start();
    (void)sampler_->waitForInventory(sampling.hang_ms);
    (void)ports_->look({}, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(o.interval_ms, 500)));
  }

  Result<model::ClusterProcesses> ask() {
    Result<model::ClusterProcesses> answer = model::ClusterProcesses();
    if (o_.local()) {
      answer->nodes.emplace_back();
      answer->nodes[0].rdma = ports_->look(latest_.state(), recorded_.read());
    } else {
      model::ProcessQuery query;
      query.rdma = true;
      answer = o_.ask(query);
    }
    if (!answer) return answer;
    for (model::NodeProcesses& n : answer->nodes) std::erase_if(n.rdma, [&](const RdmaPort& p) { return !wanted(p); });
    return answer;
  }

 private:
  bool wanted(const RdmaPort& p) const {
    int64_t pid = 0, rank = 0;
    const bool of_pid = parseInt(o_.text, pid);
    const bool of_rank = o_.text.starts_with("rank:") && parseInt(std::string_view(o_.text).substr(5), rank);
    if ((of_pid || of_rank) && std::none_of(p.users.begin(), p.users.end(), [&](const model::RdmaUser& u) {
          return of_pid ? u.pid == pid : u.rank == rank;
        }))
      return false;
    return o_.device.empty() || p.name == o_.device || p.name.starts_with(o_.device + ":");
  }

  const Options& o_;
  hardware::Latest latest_;
  capture::ProcessesNow recorded_;
  std::unique_ptr<process::RdmaWatch> ports_;
  std::unique_ptr<hardware::Sampler> sampler_;  // the first to go: it gives to latest_
};

Status noPort(const Options& o) {
  if (!o.device.empty()) return Status::notFound("there is no RDMA port " + o.device + "; `tracesmith rdma` lists all");
  if (!o.text.empty() && o.text != "all" && (o.local() || o.text.starts_with("rank:")))
    return Status::notFound("no RDMA port is used by " +
                            (o.local() ? "process " + o.text : "rank " + o.text.substr(5)));
  return Status::notFound(o.local()
                              ? "no RDMA port on this machine (nothing in " + o.places.root + "/sys/class/infiniband)"
                              : "no RDMA port on the nodes that answered");
}

int run(const Options& o) {
  Asker asker(o);
  Result<model::ClusterProcesses> answer = asker.ask();
  if (!answer) return fail(answer.status());
  const auto none = [&] {
    return std::all_of(answer->nodes.begin(), answer->nodes.end(),
                       [](const model::NodeProcesses& n) { return n.rdma.empty(); });
  };
  if (o.json) {
    std::printf("%s\n", jsonOf(*answer).c_str());
    return 0;
  }
  warnOfMissing(*answer);
  if (none()) return fail(noPort(o));
  if (o.once || !hasScreen()) {
    for (const std::string& line : linesOf(*answer, !o.local())) std::printf("%s\n", line.c_str());
    return 0;
  }
  Screen screen;
  std::string pressed;
  do {
    std::vector<std::string> lines =
        answer ? linesOf(*answer, !o.local()) : std::vector<std::string>{printable(answer.status().message())};
    lines.insert(lines.end(), {"", "q quits"});
    const ScreenSize size = screenSize();
    if (lines.size() > size.height) lines.resize(size.height);
    for (std::string& line : lines) line = shorten(line, std::max<size_t>(20, size.width));
    screen.draw(lines);
    if (!screen.keys(o.interval_ms, pressed) || pressed.find_first_of("qQ\x03") != std::string::npos) break;
    answer = asker.ask();
  } while (true);
  return 0;
}

constexpr const char* kNotes =
    "wait/s: ticks in which a port had data to send but no credit. congestion/s: packets that switches marked, and\n"
    "notifications about them. errors: since the driver was loaded. GPUs: those nearest to the port. ranks: processes\n"
    "that have the device open, by rank or pid; in brackets where none has, and one is on a GPU next to it.\n\n";

void addOptions(Command& command, const std::shared_ptr<Options>& o, const char* example) {
  command.positional("DEVICE", o->device, "Only this device (mlx5_0) or port (mlx5_0:1)");
  command.flag("--once", o->once, "Print once and exit; the default if the output is not a terminal");
  command.option("--interval", o->interval_ms, "Interval between updates, in ms")
      .showDefault()
      .check(range(100, 60000));
  command.footer((std::string(kNotes) + example).c_str());
  command.run([o] { return o->check(); }, [o] { return run(*o); });
}

}  // namespace

void addRdma(Command& app) {
  auto o = std::make_shared<Options>();
  Command command =
      app.command("rdma", "Watch InfiniBand and RoCE ports: rates, errors, congestion, and who uses them");
  o->add(command);
  addPlaces(command, o->places);
  addOptions(command, o,
             "Examples:  tracesmith rdma\n           tracesmith rdma mlx5_0 --json | jq '.nodes[].ports[].counters'\n"
             "           tracesmith rdma -t rank:3 --master head:50051");
}

void addClusterRdma(Command& cluster) {
  auto o = std::make_shared<Options>();
  o->text = "all";
  Command command = cluster.command("rdma", "Watch the InfiniBand and RoCE ports of all nodes");
  o->ClientCommand::add(command);
  addOptions(command, o, "Example:  tracesmith cluster rdma --once");
}

}  // namespace tracesmith::cli
