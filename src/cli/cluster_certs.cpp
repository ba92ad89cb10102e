// tracesmith cluster certs: an authority and certificates for a cluster that speaks TLS.
#include <cstdio>

#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/libraries.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cli {
namespace {

int certs(const cluster::CertificateOptions& o, bool json) {
  Result<cluster::Library*> library = loadCluster();
  if (!library) return fail(library.status());
  Result<std::vector<std::string>> files = (*library)->makeCertificates(o);
  if (!files) return fail(files.status());
  if (json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().key("files").beginArray();
    for (const std::string& file : *files) w.value(file);
    w.endArray().endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  for (const std::string& file : *files) std::printf("%s\n", file.c_str());
  return 0;
}

}  // namespace

void addClusterCerts(Command& cluster) {
  auto o = std::make_shared<cluster::CertificateOptions>();
  auto json = std::make_shared<bool>(false);
  Command command = cluster.command("certs", "Create an authority and certificates for TLS");
  command.option("-o,--output", o->folder, "Folder to write to").required().type("DIR");
  command.option("--host", o->hosts, "Names and addresses of the master and the agents, in addition to localhost")
      .type("NAME");
  command.option("--days", o->days, "Days the certificates are valid")
      .type("DAYS")
      .showDefault()
      .check(range(1, 36500));
  command.option("--ca", o->authority, "Sign with the authority in this folder instead of a new one").type("DIR");
  command.flag("--json", *json, "Print the file names as JSON");
  command.footer(
      "Writes ca.pem, server.pem, client.pem and their keys, readable by the owner only. Whoever has ca-key.pem "
      "can\ngrant access to anybody: keep it off the nodes.\n\nExample:  tracesmith cluster certs -o certs --host head "
      "node1 node2\n          tracesmith cluster master --listen 0.0.0.0 --tls-ca certs/ca.pem --tls-cert "
      "certs/server.pem \\\n                                    --tls-key certs/server-key.pem\n          tracesmith "
      "cluster status --master head:50051 --tls-ca certs/ca.pem --tls-cert certs/client.pem \\\n                       "
      "             --tls-key certs/client-key.pem");
  command.run([o, json] { return certs(*o, *json); });
}

}  // namespace tracesmith::cli
