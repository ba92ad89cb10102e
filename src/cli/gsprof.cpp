// gsprof: each of its commands is one of our own, with other names for its options; http-… ask the HTTP API.
#include "cli/gsprof.hpp"

#include <simdjson.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "access/names.hpp"
#include "base/count.hpp"
#include "base/free_path.hpp"
#include "base/http_client.hpp"
#include "base/text.hpp"
#include "cli/client_settings.hpp"
#include "cli/commands.hpp"
#include "cli/tree.hpp"
#include "server/api.hpp"

namespace tracesmith::cli {
namespace {

using Words = std::vector<std::string>;

/// What the commands take, all of them together.
struct Options {
  std::string address, name, id, host = "127.0.0.1", node_id, data, plot, token_file;
  uint32_t port = 8090, http_port = server::kHttpPort, freq_ms = 500, session_freq_ms = 0, sim = 0;
  bool bandwidth = false, nvlink = false, resilient = false, list = false, save = false, json = false;
};
using Shared = std::shared_ptr<Options>;

/// Runs a command of `tracesmith`.
int tracesmith(Words words) {
  words.insert(words.begin(), "tracesmith");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return makeProgram()->run(static_cast<int>(argv.size()), argv.data());
}

void add(Words& words, const char* option, const std::string& value) {
  if (!value.empty()) words.insert(words.end(), {option, value});
}

int start(const Options& o) {
  Words words = {"cluster",  "master", "--port", std::to_string(o.port),   "--http-port", std::to_string(o.http_port),
                 "--listen", o.host,   "--freq", std::to_string(o.freq_ms)};
  std::error_code error;
  if (o.http_port != 0) add(words, "--frames", std::filesystem::current_path(error).string());
  add(words, "--token-file", o.token_file);
  return tracesmith(words);
}

int connect(const Options& o) {
  Words words = {"cluster", "agent", "--master", o.address, "--port", "0"};
  add(words, "--node-id", o.node_id);
  add(words, "--token-file", o.token_file);
  if (o.sim) add(words, "--sim", std::to_string(o.sim));
  return tracesmith(words);
}

/// A command that asks the head.
int ask(const Options& o, Words words) {
  add(words, "--master", o.address);
  add(words, "--token-file", o.token_file);
  if (o.json) words.emplace_back("--json");
  return tracesmith(words);
}

int profile(const Options& o) {
  Words words = {"cluster", "start"};
  add(words, "--name", o.name);
  if (o.session_freq_ms) add(words, "--freq", std::to_string(o.session_freq_ms));
  return ask(o, words);
}

int stop(const Options& o) {
  Words words = {"cluster", "stop"};
  add(words, "--name", o.name);
  return ask(o, words);
}

int recover(const Options& o) {
  Words words = {"cluster", "recover"};
  if (o.list) words.emplace_back("--list");
  add(words, "--name", o.name);
  add(words, "--session-id", o.id);
  if (o.save) add(words, "--export", freePath(o.name.empty() ? o.id : o.name, ".json"));
  return ask(o, words);
}

/// Asks the HTTP API; an answer that is no success is a failure with its message.
Result<std::string> askHttp(const Options& o, const char* method, const char* path, const std::string& json) {
  const Result<access::Address> address = access::parseAddress(o.address, server::kHttpPort);
  if (!address) return address.status();
  cluster::ClientOptions settings;
  settings.security.token_file = o.token_file;
  TS_TRY(addSettings(true, settings));
  Result<std::string> token = access::clientToken(settings.security);
  if (!token) return token.status();
  if (!token->empty()) warn(access::clearTokenWarning(address->host, settings.security));
  const HttpUrl url{address->host, std::to_string(address->port), path};
  const Result<HttpReply> reply = httpAsk(url, method, json, *token);
  if (!reply) return reply.status();
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(reply->body).get(root))
    return Status::corrupt(o.address + " did not answer with JSON: is it the HTTP port of the head?");
  std::string_view message;
  if (reply->status != 200) {
    if (root["error"]["message"].get(message)) message = "no reason given";
    return Status::invalid(std::string(message));
  }
  if (bool success; !root["success"].get(success) && !success && !root["message"].get(message))
    return Status::notFound(std::string(message));
  return reply->body;
}

int printHttp(const Options& o, const Result<std::string>& answer) {
  if (!answer) return fail(answer.status());
  if (o.json) {
    std::printf("%s\n", answer->c_str());
    return 0;
  }
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view text;
  if (parser.parse(*answer).get(root)) return fail(Status::corrupt("the answer is not JSON"));
  if (!root["message"].get(text)) std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
  if (!root["output_file"].get(text)) std::printf("frames: %.*s\n", static_cast<int>(text.size()), text.data());
  return 0;
}

std::string nameJson(const Options& o) {
  std::string text;
  JsonWriter w(text);
  w.beginObject();
  if (!o.name.empty()) w.field("name", o.name);
  if (o.session_freq_ms) w.field("freq", static_cast<int64_t>(o.session_freq_ms));
  w.endObject();
  return text;
}

int httpProfile(const Options& o) { return printHttp(o, askHttp(o, "POST", "/profiling/start", nameJson(o))); }
int httpStop(const Options& o) { return printHttp(o, askHttp(o, "POST", "/profiling/stop", nameJson(o))); }

int httpStatus(const Options& o) {
  const Result<std::string> answer = askHttp(o, "GET", "/status", "");
  if (!answer || o.json) return printHttp(o, answer);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array clients, sessions;
  uint64_t gpus = 0;
  if (parser.parse(*answer).get(root) || root["connected_clients"].get(clients) || root["total_gpus"].get(gpus) ||
      root["active_sessions"].get(sessions))
    return fail(Status::corrupt("the answer is not the status of a head"));
  std::printf("%s, %s\n", counted(clients.size(), "client").c_str(), counted(gpus, "GPU").c_str());
  if (sessions.size() == 0) std::printf("not profiling\n");
  for (simdjson::dom::element session : sessions) {
    std::string_view name, file;
    uint64_t frames = 0;
    if (session["name"].get(name) || session["frame_count"].get(frames)) continue;
    std::printf("profiling %.*s, %s", static_cast<int>(name.size()), name.data(), counted(frames, "frame").c_str());
    if (!session["output_file"].get(file)) std::printf(", into %.*s", static_cast<int>(file.size()), file.data());
    std::printf("\n");
  }
  return 0;
}

int stat(const Options& o) {
  Words words = {"cluster", "stat", "--data", o.data};
  add(words, "--plot", o.plot);
  if (o.json) words.emplace_back("--json");
  return tracesmith(words);
}

struct Declared {
  Command command;
  Shared options;
};

Declared declare(Command& app, const char* name, const char* summary, int (*work)(const Options&)) {
  auto o = std::make_shared<Options>();
  Command command = app.command(name, summary);
  command.run([o, work] { return work(*o); });
  return {command, o};
}

Option token(Declared& d, const char* help) {
  return d.command.option("--token-file", d.options->token_file, help).type("FILE");
}

/// A command that asks the head at an address.
Declared client(Command& app, const char* name, const char* summary, int (*work)(const Options&), bool http) {
  Declared d = declare(app, name, summary, work);
  d.command
      .positional("ADDRESS", d.options->address, http ? "HOST:PORT of the head's HTTP API" : "HOST:PORT of the head")
      .required()
      .type("");
  token(d, "File with the token to send");
  d.command.flag("--json", d.options->json, "Print JSON");
  return d;
}

void addServers(Command& app) {
  Declared head = declare(app, "start", "Start the head, which clients send their data to", start);
  Options& o = *head.options;
  head.command.option("--port", o.port, "Port for clients").type("PORT").showDefault().check(range(0, 65535));
  head.command.option("--http-port", o.http_port, "Port of the HTTP API and the page; 0 turns them off")
      .type("PORT")
      .showDefault()
      .check(range(0, 65535));
  head.command.option("--host", o.host, "Address to listen on; other than loopback requires a token")
      .type("ADDRESS")
      .showDefault();
  head.command.option("--freq", o.freq_ms, "Interval of samples, in milliseconds")
      .type("MS")
      .showDefault()
      .check(range(10, 3600000));
  head.command.flag("--enable-bandwidth", o.bandwidth, "Accepted: bandwidths are always measured");
  head.command.flag("--enable-nvlink", o.nvlink, "Accepted: NVLink is always measured");
  token(head, "Accepted tokens, one ROLE TOKEN per line (viewer, operator, admin)");
  head.command.footer(
      "When a session ends, its frames are written to NAME.json in the folder where the head runs (with an HTTP "
      "port).\n"
      "\nExample:  gsprof start --port 8090 --http-port 8091 --freq 1000");
  Declared node = declare(app, "connect", "Send the data of this node's GPUs to a head", connect);
  node.command.positional("ADDRESS", node.options->address, "HOST:PORT of the head").required().type("");
  node.command.flag("--resilient", node.options->resilient,
                    "Accepted: a client always connects again and keeps what it could not send");
  node.command.option("--node-id", node.options->node_id, "Name of this node (default: the host name)").type("NAME");
  node.command.option("--sim", node.options->sim, "Simulate this many busy GPUs").type("GPUS").check(range(1, 64));
  token(node, "File with the token to send");
  node.command.footer("Example:  gsprof connect head:8090 --resilient");
}

void addSessions(Command& app, bool http) {
  const std::string port = http ? "8091" : "8090", prefix = http ? "http-" : "";
  auto example = [&](Declared& d, const std::string& words) {
    d.command.footer(("Example:  gsprof " + words).c_str());
  };
  Declared begin = client(app, (prefix + "profile").c_str(), http ? "Start a session over HTTP" : "Start a session",
                          http ? httpProfile : profile, http);
  begin.command.option("--name", begin.options->name, "Name of the session (default: generated)").type("NAME");
  begin.command.option("--freq", begin.options->session_freq_ms, "Interval of samples, in milliseconds")
      .type("MS")
      .check(range(10, 3600000));
  example(begin, prefix + "profile head:" + port + " --name my_experiment");
  Declared status = client(
      app, (prefix + "status").c_str(), http ? "Print clients and sessions over HTTP" : "Print clients and sessions",
      http ? httpStatus : [](const Options& o) { return ask(o, {"cluster", "status"}); }, http);
  example(status, prefix + "status head:" + port);
  Declared end =
      client(app, (prefix + "stop").c_str(), http ? "Stop one session, or all, over HTTP" : "Stop one session, or all",
             http ? httpStop : stop, http);
  end.command.option("--name", end.options->name, "Session to stop (default: all)").type("NAME");
  example(end, prefix + "stop head:" + port + " --name my_experiment");
}

void addFiles(Command& app) {
  Declared d = declare(app, "recover", "List sessions, resume one, or export its frames", recover);
  Options& o = *d.options;
  o.address = "127.0.0.1:8090";
  d.command.flag("--list", o.list, "List all sessions");
  d.command.option("--name", o.name, "Session, by name").type("NAME");
  d.command.option("--session-id", o.id, "Session, by id").type("ID");
  d.command.flag("--export", o.save, "Write its frames to NAME.json in this folder instead of resuming it");
  d.command.option("--head", o.address, "Head to ask").type("HOST:PORT").showDefault();
  token(d, "File with the token to send");
  d.command.flag("--json", o.json, "Print JSON");
  d.command.footer("Example:  gsprof recover --export --name my_experiment");
  d.command.run(
      [o = d.options]() -> Status {
        if (o->list + !o->name.empty() + !o->id.empty() != 1)
          return Status::invalid("give one of --list, --name NAME or --session-id ID");
        return o->list && o->save ? Status::invalid("--export needs --name NAME or --session-id ID") : Status();
      },
      [o = d.options] { return recover(*o); });
  Declared s = declare(app, "stat", "Print statistics of a session's frames, and plot them", stat);
  s.command.option("--data", s.options->data, "Frames: NAME.json").required().type("FILE.json");
  s.command.option("--plot", s.options->plot, "Plot to write").type("FILE.png|.pdf|.svg");
  s.command.flag("--json", s.options->json, "Print JSON");
  s.command.footer("Example:  gsprof stat --data my_experiment.json --plot my_experiment.pdf");
}

}  // namespace

bool isGsprof(int argc, char** argv) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  return name.substr(name.rfind('/') + 1) == "gsprof";
}

int runGsprof(int argc, char** argv) {
  Program program("gsprof", "gsprof is TraceSmith by the commands of gswarm's profiler.", TRACESMITH_VERSION);
  Command& app = program.root();
  app.needsCommand();
  app.footer(
      "Example:  gsprof start & gsprof connect localhost:8090 & gsprof profile localhost:8090 --name my_experiment");
  addServers(app);
  addSessions(app, false);
  addSessions(app, true);
  addFiles(app);
  return program.run(argc, argv);
}

}  // namespace tracesmith::cli
