// What the files of `tracesmith cluster` share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cluster/api.hpp"

namespace tracesmith::cli {

void addClusterServers(Command& cluster);   // agent, master
void addClusterNodes(Command& cluster);     // add-node, nodes, status
void addClusterSessions(Command& cluster);  // record, start, stop, sessions, recover
void addClusterRemove(Command& cluster);    // delete, remove-node

void addClusterLaunch(Command& cluster);  // launch

void addClusterStat(Command& cluster);   // stat
void addClusterData(Command& cluster);   // tail, query, analyze-comm
void addClusterHang(Command& cluster);   // hang
void addClusterPs(Command& cluster);     // ps, list
void addClusterRdma(Command& cluster);   // rdma
void addClusterCerts(Command& cluster);  // certs
void addClusterPlans(Command& cluster);  // plans

void addSecurity(Command& command, access::SecurityOptions& security, bool server);

/// --master and security of a command that asks a master.
struct ClientCommand {
  cluster::ClientOptions client;
  bool json = false;
  std::optional<Option> master;  ///< once it was declared
  void add(Command& command);
  Result<std::unique_ptr<cluster::Client>> connect() const;
};

/// `cluster query`: SQL over what is stored and what runs now.
struct SessionQuery : ClientCommand {
  std::string session;  ///< by name or id; empty: all that is stored
  std::string sql, sql_file, format, output;
  std::string store = "master";  ///< or "clickhouse"
  bool strict = false, verbose = false;
};
int querySession(const SessionQuery& query);
int queryClickHouse(const SessionQuery& query);

/// "2026-11-15 07:20:01", local time.
std::string timeText(int64_t unix_ns);

}  // namespace tracesmith::cli
