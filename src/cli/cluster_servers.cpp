// tracesmith cluster agent, cluster master: run until they are told to stop.
#include <algorithm>
#include <cstdio>

#include "access/names.hpp"
#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/libraries.hpp"
#include "cli/outcome.hpp"
#include "cli/web.hpp"
#include "cluster/api.hpp"
#include "server/api.hpp"

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
  Result<server::Library*> library = loadServer();
  Result<std::unique_ptr<server::Server>> page = library ? (*library)->serveCluster(web.options, master)
                                                         : Result<std::unique_ptr<server::Server>>(library.status());
  if (page || web.asked) return page;
  warn("cannot serve the page: " + page.status().message() + " (choose another --http-port, or 0 for none)");
  return std::unique_ptr<server::Server>();
}

/// Prints where it listens and waits for SIGINT or SIGTERM.
int serve(const char* what, const std::string& listen, const access::SecurityOptions& security, bool json, Web* web,
          const std::function<Result<std::unique_ptr<cluster::Server>>(cluster::Library&)>& start) {
  StopSignals signals;
  warn(access::clearTokenWarning(listen, security));
  Result<cluster::Library*> library = loadCluster();
  if (!library) return fail(library.status());
  Result<std::unique_ptr<cluster::Server>> server = start(**library);
  // An option that the server could not read is wrong usage.
  if (const Status& s = server.status(); !s && s.code() == Code::kInvalid && s.message().starts_with("--"))
    return usage(std::string("cluster ") + what, s.message());
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

/// Where the master sends its metrics.
void addExports(Command& command, sink::Options& o) {
  command
      .option("--remote-write", o.remote_write,
              "Send the metrics to this Prometheus, or what speaks its remote write (default path: /api/v1/write)")
      .type("URL");
  command
      .option("--otlp", o.otlp,
              "Send the metrics, and steps and collectives as spans, to this OpenTelemetry receiver (OTLP over HTTP)")
      .type("URL");
  command
      .option("--otlp-spans", o.spans, "What is sent as spans: steps and their collectives (all), steps only, or none")
      .showDefault()
      .check(oneOf({"all", "steps", "none"}));
  command
      .option("--influx", o.influx,
              "Send the metrics to this InfluxDB in its line protocol (default path: /write?db=tracesmith)")
      .type("URL");
  command
      .option("--clickhouse", o.clickhouse,
              "Insert all rows that are stored into this ClickHouse; several servers share the nodes")
      .type("URL[,URL]");
  command.option("--statsd", o.statsd, "Send the metrics to this StatsD over UDP, with tags as Datadog writes them")
      .type("HOST:PORT");
  command.option("--export-interval", o.interval_s, "Send metrics every SECONDS")
      .type("SECONDS")
      .showDefault()
      .check(range(0.1, 3600.0));
  command
      .option("--export-queue", o.queue_bytes,
              "What waits for a receiver that does not answer takes up to BYTES of disk; then the oldest goes")
      .type("BYTES")
      .showDefault()
      .check(range(uint64_t{1} << 16, uint64_t{1} << 40));
  command
      .option("--export-auth", o.auth_file,
              "File with lines `remote-write|otlp|influx Header: value` that are added to requests (mode 600)")
      .type("FILE");
}

}  // namespace

void addClusterServers(Command& cluster) {
  {
    auto o = std::make_shared<cluster::AgentOptions>();
    auto json = std::make_shared<bool>(false);
    Command command = cluster.command("agent", "Collect the records of this node and send them to a master");
    command.option("--master", o->master, "Master to connect to (default: wait for `cluster add-node`)")
        .type("HOST:PORT");
    command.option("--port", o->port, "Port to listen on; 0 picks a free one").showDefault();
    command.option("--listen", o->listen, "Address to listen on; other than loopback requires a token or TLS")
        .type("ADDRESS")
        .showDefault();
    command.option("--data-dir", o->data_dir, "Folder for the spool").type("FOLDER").showDefault();
    command.option("--node-id", o->node_id, "Name of this node (default: the host name)").type("NAME");
    command.option("--sim", o->sim_gpus, "Simulate this many busy GPUs").type("GPUS").check(range(1, 64));
    command.option("--sim-ranks", o->sim_ranks, "Ranks of the simulated job, over all nodes")
        .type("N")
        .check(range(1, 65536));
    command.option("--sim-first-rank", o->sim_first_rank, "First rank of the simulated job on this node")
        .type("N")
        .check(range(0, 65535));
    command
        .option("--sim-start", o->sim_start,
                "Start of the simulated job in Unix seconds, the same on all nodes (default: now)")
        .type("SECONDS");
    command
        .option("--fault", o->sim_faults, "Faults of the simulated job, as for `tracesmith synth`: slow-gpu=3:1.2, …")
        .type("FAULT");
    command.option("--freq", o->freq_ms, "Default interval of telemetry, in milliseconds")
        .type("MS")
        .showDefault()
        .check(range(10, 3600000));
    command
        .option("--keep-rings", o->keep_rings_s, "Keep the rings of ended processes for SECONDS if nobody records them")
        .type("SECONDS")
        .showDefault()
        .check(range(0.0, 1e9));
    command.option("--segment-bytes", o->segment_bytes, "Approximate size of a spool file")
        .type("BYTES")
        .showDefault()
        .check(range(uint64_t{64} << 10, uint64_t{1} << 30));
    auto ras = std::make_shared<std::string>("auto");
    command
        .option(
            "--nccl-ras", *ras,
            "Ask NCCL's RAS socket about jobs that run without the probe: auto (port 28028 and NCCL_RAS_ADDR of the "
            "jobs), off, or one port")
        .type("auto|off|PORT")
        .showDefault();
    command.flag("--allow-launch", o->allow_launch,
                 "Let admins start jobs on this node with `cluster launch`, as the user who runs the agent");
    command.flag("--allow-eval", o->allow_eval,
                 "Let admins run code in the processes of this node and see values of their variables: eval, attach, "
                 "backtrace --locals");
    command
        .option("--interface", o->interface,
                "Network interface for what goes to the master, by its name (default: the kernel chooses)")
        .type("NAME");
    auto rate = std::make_shared<double>(0);
    command
        .option("--max-rate", *rate,
                "Send at most so many MB of records a second to the master; the rest waits in the spool")
        .type("MB/S")
        .check(range(0.001, 1e6));
    auto clock = std::make_shared<ClockChoice>();
    command
        .option("--clock", clock->source,
                "What this node's clock is compared with: the master (exchange), an NTP server or a PTP clock; NTP and "
                "PTP put nodes on one clock only if the master's machine keeps the same time")
        .type("SOURCE")
        .showDefault()
        .check(oneOf({"exchange", "ntp", "ptp"}));
    command
        .option("--ntp-server", clock->ntp_server, "Server for --clock ntp; chrony: what this machine's chronyd knows")
        .type("HOST[:PORT]")
        .showDefault();
    command.option("--ptp-interface", clock->ptp_interface, "Network interface or device for --clock ptp")
        .type("NAME")
        .showDefault();
    addSecurity(command, o->security, true);
    command.flag("--json", *json, "Print the addresses as JSON");
    command.footer(
        "Without --token-file and --tls-ca, only the user who runs the agent (and root) may send it to another master."
        "\n\nExample:  tracesmith cluster agent --master head:50051 --token-file tokens --data-dir "
        "/var/lib/tracesmith");
    command.run([o, json, clock, ras, rate] {
      o->max_rate = static_cast<uint64_t>(*rate * 1e6);
      int64_t port = 0;
      if (*ras == "off")
        o->ras = false;
      else if (*ras != "auto" && (!parseInt(*ras, port) || port < 1 || port > 65535))
        return usage("cluster agent", "--nccl-ras is auto, off or a port, not '" + *ras + "'");
      o->ras_port = static_cast<uint16_t>(port);
      if (clock->source == "ntp") o->clock = {sync::Source::Kind::ntp, clock->ntp_server};
      if (clock->source == "ptp") o->clock = {sync::Source::Kind::ptp, clock->ptp_interface};
      if (const Result<access::Address> master = access::parseAddress(o->master, cluster::kMasterPort))
        warn(access::clearTokenWarning(master->host, o->security));
      return serve("agent", o->listen, o->security, *json, nullptr,
                   [&](cluster::Library& l) { return l.startAgent(*o); });
    });
  }
  auto o = std::make_shared<cluster::MasterOptions>();
  auto json = std::make_shared<bool>(false);
  Command command = cluster.command("master", "Run the master: nodes, sessions, clock, store, page");
  command.option("--port", o->port, "Port to listen on, TCP and UDP; 0 picks a free one").showDefault();
  command.option("--listen", o->listen, "Address to listen on; other than loopback requires a token or TLS")
      .type("ADDRESS")
      .showDefault();
  command.option("--data-dir", o->data_dir, "Folder for everything the master stores").type("FOLDER").showDefault();
  command.option("--freq", o->freq_ms, "Default interval of telemetry for sessions, in milliseconds")
      .type("MS")
      .showDefault()
      .check(range(10, 3600000));
  command.option("--heartbeat", o->heartbeat_ms, "Interval between agent reports, in milliseconds")
      .type("MS")
      .showDefault()
      .check(range(50, 60000));
  command.option("--node-timeout", o->timeout_ms, "A node that is silent for MS milliseconds is unhealthy")
      .type("MS")
      .showDefault()
      .check(range(100, 3600000));
  command
      .option("--nodes", o->nodes_file,
              "nodes.yaml: nodes whose agents the master connects to, their capabilities and prices")
      .type("FILE.yaml");
  auto web = std::make_shared<Web>();
  Option http =
      command
          .option("--http-port", web->port, "Port of the page and the HTTP API; 0 turns them off, -1 picks a free port")
          .showDefault()
          .check(range(-1, 65535));
  command
      .option("--http-origin", web->options.origins,
              "Another site whose pages may use the HTTP API: https://grafana.example")
      .type("ORIGIN");
  command
      .option("--frames", web->options.frames,
              "Write the telemetry of each session that ends to NAME.json in this folder, in frames as gswarm has them")
      .type("FOLDER");
  command.option("--webhook", o->webhook, "POST alerts (a hang, a slow rank, …) as JSON to this address").type("URL");
  command
      .option("--on-alert", o->on_alert,
              "Run this program for each alert, with JSON on standard input; no shell is involved")
      .type("CMD");
  command.option("--freeze", o->freeze_s, "On a hang, keep the last SECONDS of all ranks as the session hang-TIME")
      .type("SECONDS")
      .check(range(0.1, 3600.0));
  addExports(command, o->exports);
  addSecurity(command, o->security, true);
  command.flag("--json", *json, "Print the addresses as JSON");
  command.footer(
      "Without --token-file and --tls-ca, only the user who runs the master (and root) may use it, on this machine."
      "\nCredentials for receivers of metrics: TRACESMITH_REMOTE_WRITE_AUTHORIZATION, TRACESMITH_OTLP_AUTHORIZATION "
      "and "
      "\nTRACESMITH_INFLUX_AUTHORIZATION in the environment (`Bearer TOKEN`, `Basic …`, `Token …`), or --export-auth."
      "\n\nExample:  tracesmith cluster master --listen 0.0.0.0 --token-file tokens --data-dir /var/lib/tracesmith"
      "\n          tracesmith cluster master --remote-write http://prometheus:9090 --otlp http://collector:4318");
  auto check = [web]() -> Status {
    if (!web->options.frames.empty() && web->port == 0)
      return Status::invalid("--frames is a part of the HTTP server: give it a --http-port");
    return {};
  };
  command.run(check, [o, json, web, http] {
    web->options.listen = o->listen;
    web->options.data_dir = o->data_dir;
    web->options.security = o->security;
    web->asked = http.given();
    return serve("master", o->listen, o->security, *json, web.get(),
                 [&](cluster::Library& l) { return l.startMaster(*o); });
  });
}

}  // namespace tracesmith::cli
