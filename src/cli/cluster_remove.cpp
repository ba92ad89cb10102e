// tracesmith cluster delete, remove-node.
#include <cstdio>

#include "base/text.hpp"
#include "cli/cluster.hpp"

namespace tracesmith::cli {
namespace {

int deleteSession(const ClientCommand& o, const std::string& session) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  Result<cluster::DeletedSession> deleted = (*client)->deleteSession(session);
  if (!deleted) return fail(deleted.status());
  if (o.json) {
    std::string text;
    JsonWriter(text).beginObject().field("id", deleted->id).field("freed_bytes", deleted->freed_bytes).endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("session %s was deleted, %s freed\n", session.c_str(), humanBytes(deleted->freed_bytes).c_str());
  }
  return 0;
}

int removeNode(const ClientCommand& o, const std::string& node) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  if (Status s = (*client)->removeNode(node); !s) return fail(s);
  if (o.json) {
    std::string text;
    JsonWriter(text).beginObject().field("node", node).endObject();
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("node %s was removed; what it sent stays until its sessions are deleted\n", node.c_str());
  }
  return 0;
}

}  // namespace

void addClusterRemove(Command& cluster) {
  {
    auto o = std::make_shared<ClientCommand>();
    auto name = std::make_shared<std::string>(), id = std::make_shared<std::string>();
    Command command = cluster.command("delete", "Delete a session, with the data that no other session needs");
    command.option("--name", *name, "Session to delete, by a name that only it has").type("NAME");
    command.option("--id,--session-id", *id, "Session to delete, by id").type("ID");
    o->add(command);
    command.footer(
        "Requires the admin role. Stop the session first.\n\nExample:  tracesmith cluster delete --name epoch-1");
    command.run(
        [name, id]() -> Status {
          if (name->empty() == id->empty()) return Status::invalid("give --name NAME or --id ID");
          return {};
        },
        [o, name, id] { return deleteSession(*o, id->empty() ? *name : *id); });
  }
  auto o = std::make_shared<ClientCommand>();
  auto node = std::make_shared<std::string>();
  Command command = cluster.command("remove-node", "Remove a node that will not come back");
  command.option("--node", *node, "Name of the node").required().type("NAME");
  o->add(command);
  command.footer(
      "Requires the admin role. Stop the node's agent first. What it sent stays until its sessions are deleted.\n\n"
      "Example:  tracesmith cluster remove-node --node node7");
  command.run([o, node] { return removeNode(*o, *node); });
}

}  // namespace tracesmith::cli
