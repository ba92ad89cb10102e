// tracesmith cluster: agents on nodes, a master, and what users ask of them.
#include "cli/cluster.hpp"

#include <ctime>

#include "access/names.hpp"
#include "base/text.hpp"
#include "cli/client_settings.hpp"
#include "cli/libraries.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cli {

void addSecurity(Command& command, access::SecurityOptions& s, bool server) {
  command
      .option(
          "--token-file", s.token_file,
          server ? "Accepted tokens, one ROLE TOKEN per line (viewer, operator, admin)" : "File with the token to send")
      .type("FILE");
  if (!server) command.option("--token", s.token, "The token itself; other users may see it in the list of processes");
  command.option("--tls-cert", s.tls_cert, "Certificate to present (PEM)").type("FILE");
  command.option("--tls-key", s.tls_key, "Key of the certificate (PEM)").type("FILE");
  command
      .option("--tls-ca", s.tls_ca,
              server ? "Require clients to have a certificate from this authority (PEM)"
                     : "Authority that signed the server's certificate (PEM)")
      .type("FILE");
}

void ClientCommand::add(Command& command) {
  master = command.option("--master", client.master, "Master to connect to").type("HOST:PORT").showDefault();
  addSecurity(command, client.security, false);
  command.flag("--json", json, "Print JSON");
}

Result<std::unique_ptr<cluster::Client>> ClientCommand::connect() const {
  Result<cluster::Library*> library = loadCluster();
  if (!library) return library.status();
  cluster::ClientOptions to = client;
  TS_TRY(addSettings(client.agent || (master && master->given()), to));
  if (const Result<access::Address> address = access::parseAddress(to.master, cluster::kMasterPort))
    warn(access::clearTokenWarning(address->host, to.security));
  return (*library)->connect(to);
}

std::string timeText(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm tm{};
  ::localtime_r(&seconds, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
  return text;
}

void addCluster(Command& app) {
  Command cluster = app.command("cluster", "Record many nodes: agents, a master, named sessions, one clock");
  cluster.needsCommand();
  addClusterServers(cluster);
  addClusterNodes(cluster);
  addClusterSessions(cluster);
  addClusterRemove(cluster);
  addClusterLaunch(cluster);
  addClusterData(cluster);
  addClusterStat(cluster);
  addClusterHang(cluster);
  addClusterPs(cluster);
  addClusterRdma(cluster);
  addClusterCerts(cluster);
  addClusterPlans(cluster);
  cluster.footer(
      "Example:  tracesmith cluster master &\n"
      "          tracesmith cluster agent --master 127.0.0.1:50051 --sim 4 &\n"
      "          tracesmith cluster record -o job.sbt -d 10");
}

}  // namespace tracesmith::cli
