// What the files of `tracesmith cluster` share.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cli {

void addClusterServers(CLI::App& cluster, Run& run);   // agent, master
void addClusterNodes(CLI::App& cluster, Run& run);     // add-node, nodes, status
void addClusterSessions(CLI::App& cluster, Run& run);  // record, start, stop, sessions, recover

void addClusterStat(CLI::App& cluster, Run& run);   // stat
void addClusterData(CLI::App& cluster, Run& run);   // tail, query, analyze-comm
void addClusterHang(CLI::App& cluster, Run& run);   // hang
void addClusterCerts(CLI::App& cluster, Run& run);  // certs

void addSecurity(CLI::App& command, access::SecurityOptions& security, bool server);

/// --master and security of a command that asks a master.
struct ClientCommand {
  cluster::ClientOptions client;
  bool json = false;
  void add(CLI::App& command);
  Result<std::unique_ptr<cluster::Client>> connect() const;
};

/// "2026-11-15 07:20:01", local time.
std::string timeText(int64_t unix_ns);

}  // namespace tracesmith::cli
