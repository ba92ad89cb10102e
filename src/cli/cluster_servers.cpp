// tracesmith cluster agent, cluster master: run until they are told to stop.
#include <algorithm>
#include <cstdio>

#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/cluster_library.hpp"
#include "cli/query_library.hpp"
#include "cli/server_library.hpp"
#include "cli/web.hpp"

namespace tracesmith::cli {
namespace {

struct Web {
  server::Options options;
  int port = server::kHttpPort;  // 0: none
  bool asked = false;            // the port was given, not left as it is
};

/// The page of a master. A port in use is a failure only if somebody asked for that port.
Result<std::unique_ptr<server::Server>> startPage(Web& web, cluster::Server& master) {
  web.options.port = static_cast<uint16_t>(std::max(0, web.port));
  web.options.load_engine = loadQueryEngine;
  Result<server::Library*> library = loadServer();
  Result<std::unique_ptr<server::Server>> page = library ? (*library)->serveCluster(web.options, master)
                                                         : Result<std::unique_ptr<server::Server>>(library.status());
  if (page || web.asked) return page;
  warn("there is no page: " + page.status().message() + " (--http-port says where, 0 turns it off)");
  return std::unique_ptr<server::Server>();
}

/// Prints where it listens and waits for SIGINT or SIGTERM.
int serve(const char* what, const std::string& listen, bool json, Web* web,
          const std::function<Result<std::unique_ptr<cluster::Server>>(cluster::Library&)>& start) {
  StopSignals signals;
  Result<cluster::Library*> library = loadCluster();
  if (!library) return fail(library.status());
  Result<std::unique_ptr<cluster::Server>> server = start(**library);
  if (!server) return fail(server.status());
  std::unique_ptr<server::Server> page;
  if (web && web->port != 0) {
    Result<std::unique_ptr<server::Server>> started = startPage(*web, **server);
    if (!started) return fail(started.status());
    page = std::move(*started);
  }
  if (json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject()
        .field("role", what)
        .field("name", (*server)->name())
        .field("port", static_cast<int64_t>((*server)->port()));
    if (page) w.field("http_port", static_cast<int64_t>(page->port()));
    w.endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s %s listens on %s:%u\n", what, (*server)->name().c_str(), listen.c_str(), (*server)->port());
    if (page) std::printf("page and HTTP API at %s\n", pageAddress(listen, *page).c_str());
  }
  std::fflush(stdout);
  signals.wait();
  return 0;
}

struct ClockChoice {
  std::string source = "exchange", ntp_server = "pool.ntp.org", ptp_interface = "eth0";
};

}  // namespace

void addClusterServers(CLI::App& cluster, Run& run) {
  {
    auto o = std::make_shared<cluster::AgentOptions>();
    auto json = std::make_shared<bool>(false);
    CLI::App* command = cluster.add_subcommand("agent", "Collect what happens on this node and send it to a master");
    command->add_option("--master", o->master, "Master to connect to; without it the agent waits for add-node")
        ->type_name("HOST:PORT");
    command->add_option("--port", o->port, "Port to listen on; 0: any")->capture_default_str();
    command->add_option("--listen", o->listen, "Address to listen on; beyond this machine it needs a token or TLS")
        ->type_name("ADDRESS")
        ->capture_default_str();
    command->add_option("--data-dir", o->data_dir, "Where the spool is")->type_name("FOLDER")->capture_default_str();
    command->add_option("--node-id", o->node_id, "Name of this node; default: the host name")->type_name("NAME");
    command->add_option("--sim", o->sim_gpus, "Simulate this many GPUs at work")
        ->type_name("GPUS")
        ->check(CLI::Range(1, 64));
    command->add_option("--sim-ranks", o->sim_ranks, "Ranks of the simulated job, on all its nodes")
        ->type_name("N")
        ->check(CLI::Range(1, 65536));
    command->add_option("--sim-first-rank", o->sim_first_rank, "First of its ranks that runs here")
        ->type_name("N")
        ->check(CLI::Range(0, 65535));
    command
        ->add_option("--sim-start", o->sim_start,
                     "When it began, Unix seconds: the same on all its nodes; default: now")
        ->type_name("SECONDS");
    command->add_option("--fault", o->sim_faults, "What goes wrong in it, as in `tracesmith synth`: slow-gpu=3:1.2, …")
        ->type_name("FAULT...");
    command->add_option("--freq", o->freq_ms, "Telemetry every MS milliseconds, where a session does not say")
        ->type_name("MS")
        ->capture_default_str()
        ->check(CLI::Range(10, 3600000));
    command
        ->add_option("--keep-rings", o->keep_rings_s,
                     "Memory of ended processes that nobody recorded is freed after SECONDS")
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1e9));
    command->add_option("--segment-bytes", o->segment_bytes, "Size of the files data is kept in, about")
        ->type_name("BYTES")
        ->capture_default_str()
        ->check(CLI::Range(uint64_t{64} << 10, uint64_t{1} << 30));
    auto clock = std::make_shared<ClockChoice>();
    command
        ->add_option("--clock", clock->source,
                     "What this node's clock is compared with: the master (exchange), an NTP server or a PTP clock; "
                     "NTP and PTP put nodes on one clock only if the master's machine keeps the same time")
        ->type_name("SOURCE")
        ->capture_default_str()
        ->check(CLI::IsMember({"exchange", "ntp", "ptp"}));
    command
        ->add_option("--ntp-server", clock->ntp_server,
                     "Server for --clock ntp; chrony: what this machine's chronyd knows")
        ->type_name("HOST[:PORT]")
        ->capture_default_str();
    command->add_option("--ptp-interface", clock->ptp_interface, "Network interface or device for --clock ptp")
        ->type_name("NAME")
        ->capture_default_str();
    addSecurity(*command, o->security, true);
    command->add_flag("--json", *json, "Print where it listens as JSON");
    command->footer("Example:  tracesmith cluster agent --master head:50051 --data-dir /var/lib/tracesmith");
    command->callback([o, json, clock, &run] {
      if (clock->source == "ntp") o->clock = {sync::Source::Kind::ntp, clock->ntp_server};
      if (clock->source == "ptp") o->clock = {sync::Source::Kind::ptp, clock->ptp_interface};
      run = [o, json] {
        return serve("agent", o->listen, *json, nullptr, [&](cluster::Library& l) { return l.startAgent(*o); });
      };
    });
  }
  auto o = std::make_shared<cluster::MasterOptions>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = cluster.add_subcommand("master", "Hold the cluster together: nodes, sessions, clock, store");
  command->add_option("--port", o->port, "Port to listen on, TCP and UDP; 0: any")->capture_default_str();
  command->add_option("--listen", o->listen, "Address to listen on; beyond this machine it needs a token or TLS")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_option("--data-dir", o->data_dir, "Where everything is stored")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_option("--freq", o->freq_ms, "Telemetry of sessions every MS milliseconds, where they do not say")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(10, 3600000));
  command->add_option("--heartbeat", o->heartbeat_ms, "Agents report every MS milliseconds")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(50, 60000));
  command->add_option("--node-timeout", o->timeout_ms, "A node silent for MS milliseconds is unhealthy")
      ->type_name("MS")
      ->capture_default_str()
      ->check(CLI::Range(100, 3600000));
  auto web = std::make_shared<Web>();
  CLI::Option* http =
      command->add_option("--http-port", web->port, "Port of the page and the HTTP API; 0: none, -1: any")
          ->capture_default_str()
          ->check(CLI::Range(-1, 65535));
  command
      ->add_option("--http-origin", web->options.origins, "Another site whose pages may ask: https://grafana.example")
      ->type_name("ORIGIN");
  command->add_option("--webhook", o->webhook, "Post alerts (a hang, a slow rank, …) as JSON to this address")
      ->type_name("http://…");
  command
      ->add_option("--on-alert", o->on_alert, "Run this program for alerts, with JSON on its standard input; no shell")
      ->type_name("CMD");
  command->add_option("--freeze", o->freeze_s, "On a hang keep the last SECONDS of all ranks as the session hang-TIME")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0));
  addSecurity(*command, o->security, true);
  command->add_flag("--json", *json, "Print where it listens as JSON");
  command->footer(
      "Example:  tracesmith cluster master --listen 0.0.0.0 --token-file tokens --data-dir /var/lib/tracesmith");
  command->callback([o, json, web, http, &run] {
    run = [o, json, web, http] {
      web->options.listen = o->listen;
      web->options.data_dir = o->data_dir;
      web->options.security = o->security;
      web->asked = http->count() > 0;
      return serve("master", o->listen, *json, web.get(), [&](cluster::Library& l) { return l.startMaster(*o); });
    };
  });
}

}  // namespace tracesmith::cli
