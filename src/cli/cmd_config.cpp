// tracesmith config: what the probe in running processes does, read and changed.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/count.hpp"
#include "base/text.hpp"
#include "capture/ring/settings.hpp"
#include "cli/commands.hpp"
#include "cli/target.hpp"
#include "cli/terminal.hpp"

namespace tracesmith::cli {
namespace {

struct Options : Target {
  std::vector<std::string> words;
  bool all = false;
  // What the words mean.
  std::vector<int64_t> pids;
  std::vector<std::string> settings;
};

struct Row {
  std::string node;
  const model::ProbeSettings* of;
};

std::string titleOf(const Row& row) {
  return "process " + std::to_string(row.of->pid) + (row.node.empty() ? "" : " on " + printable(row.node)) +
         (row.of->rank ? ", rank " + std::to_string(*row.of->rank) : "");
}

const model::ProbeSetting* find(const model::ProbeSettings& of, const std::string& key) {
  for (const model::ProbeSetting& s : of.settings)
    if (s.key == key) return &s;
  return nullptr;
}

std::string jsonOf(const std::vector<Row>& rows, const model::ClusterProcesses& answer) {
  std::string out;
  JsonWriter json(out);
  const auto textOrNull = [&](const std::string& s) { s.empty() ? json.null() : json.value(s); };
  json.beginObject().key("processes").beginArray();
  for (const Row& row : rows) {
    json.beginObject().key("node");
    textOrNull(row.node);
    json.field("pid", row.of->pid).key("rank");
    row.of->rank ? json.value(*row.of->rank) : json.null();
    json.field("command", row.of->command).field("simulated", row.of->simulated).key("problem");
    textOrNull(row.of->problem);
    json.key("settings").beginObject();
    for (const model::ProbeSetting& s : row.of->settings) {
      json.key(s.key);
      textOrNull(s.value == "-" ? "" : s.value);
    }
    json.endObject().endObject();
  }
  json.endArray().key("keys").beginArray();
  for (const ring::SettingInfo& s : ring::settings()) {
    json.beginObject().field("key", s.key).key("values");
    textOrNull(s.values);
    json.field("meaning", s.meaning).endObject();
  }
  json.endArray().key("problems").beginArray();
  for (const model::NodeProcesses& n : answer.nodes)
    if (!n.problem.empty()) json.beginObject().field("node", n.node).field("problem", n.problem).endObject();
  json.endArray().endObject();
  return out;
}

/// All that there is of one process, explained.
void printOne(const Row& row) {
  std::string title = titleOf(row);
  title[0] = 'P';
  std::printf("%s: %s\n\n", title.c_str(), shorten(printable(row.of->command), 100).c_str());
  std::vector<std::vector<std::string>> table = {{"setting", "value", "takes", "meaning"}};
  for (const ring::SettingInfo& info : ring::settings())
    if (const model::ProbeSetting* s = find(*row.of, info.key))
      table.push_back({s->key, printable(s->value), *info.values ? info.values : "(read only)", info.meaning});
  std::printf("%s", tableText(table).c_str());
}

/// A line for each process, with these settings; none: all.
void printTable(const std::vector<Row>& rows, const std::vector<std::string>& keys) {
  const bool nodes = std::any_of(rows.begin(), rows.end(), [](const Row& r) { return !r.node.empty(); });
  std::vector<std::vector<std::string>> table = {{"pid", "rank"}};
  if (nodes) table[0].insert(table[0].begin(), "node");
  for (const ring::SettingInfo& s : ring::settings())
    if (keys.empty() || std::count(keys.begin(), keys.end(), s.key) > 0) table[0].push_back(s.key);
  table[0].push_back("command");
  for (const Row& row : rows) {
    std::vector<std::string>& line = table.emplace_back();
    if (nodes) line.push_back(printable(row.node));
    line.push_back(std::to_string(row.of->pid));
    line.push_back(row.of->rank ? std::to_string(*row.of->rank) : "-");
    for (size_t i = line.size(); i + 1 < table[0].size(); ++i) {
      const model::ProbeSetting* s = find(*row.of, table[0][i]);
      line.push_back(s ? printable(s->value) : "-");
    }
    line.push_back(shorten(printable(row.of->command), 60));
  }
  std::printf("%s", tableText(table).c_str());
}

void printChanges(const Row& row, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const model::ProbeSetting* s = find(*row.of, word.substr(0, equals));
    if (!s || equals == std::string::npos) continue;
    const std::string was = s->before.empty() ? " already" : ", was " + printable(s->before);
    std::printf("%s: %s=%s%s\n", titleOf(row).c_str(), s->key.c_str(), printable(s->value).c_str(), was.c_str());
  }
}

Status nobody(const Options& o, const model::ClusterProcesses& answer) {
  for (const int64_t pid : o.pids)
    if (o.local())
      return Status::notFound("process " + std::to_string(pid) +
                              " is not under the probe, or belongs to another user; `tracesmith ps` lists those that "
                              "are");
  const bool whole = std::all_of(answer.nodes.begin(), answer.nodes.end(),
                                 [](const model::NodeProcesses& n) { return n.problem.empty(); });
  return Status::notFound(std::string("no process there is under the probe") +
                          (whole ? "; start one with `tracesmith run`" : ", as far as nodes answered"));
}

int run(const Options& o) {
  model::ProcessQuery query;
  query.settings = true;
  query.pids = o.pids;
  std::vector<std::string> keys;  // that are only read
  for (const std::string& word : o.settings) (word.find('=') == std::string::npos ? keys : query.set).push_back(word);
  const Result<model::ClusterProcesses> answer = o.ask(query);
  if (!answer) return fail(answer.status());
  std::vector<Row> rows;
  for (const model::NodeProcesses& node : answer->nodes)
    for (const model::ProbeSettings& p : node.settings) rows.push_back({node.node, &p});
  if (!o.json) warnOfMissing(*answer);
  if (rows.empty()) return fail(nobody(o, *answer));
  int rc = 0;
  if (o.json) std::printf("%s\n", jsonOf(rows, *answer).c_str());
  for (const Row& row : rows) {
    if (!row.of->problem.empty())
      rc = fail(Status::invalid(titleOf(row) + ": " + printable(row.of->problem)));
    else if (!o.json)
      printChanges(row, query.set);
  }
  if (o.json || (keys.empty() && !query.set.empty())) return rc;
  if (rows.size() == 1 && keys.size() == 1) {
    const model::ProbeSetting* s = find(*rows[0].of, keys[0]);
    std::printf("%s\n", s ? printable(s->value).c_str() : "-");
  } else if (rows.size() == 1 && keys.empty()) {
    printOne(rows[0]);
  } else {
    printTable(rows, keys);
  }
  return rc;
}

Status check(Options& o) {
  TS_TRY(o.check());
  for (const std::string& word : o.words) {
    int64_t pid = 0;
    if (!parseInt(word, pid))
      o.settings.push_back(word);
    else if (pid > 0)
      o.pids.push_back(pid);
    else
      return Status::invalid("a process id is positive, not \"" + word + "\"");
  }
  if (o.pids.empty() && o.text.empty() && !o.all) return Status::invalid("name a process, --all or a target");
  if (o.all && !o.pids.empty()) return Status::invalid("give either process ids or --all");
  return ring::checkSettings(o.settings);
}

std::string footerText() {
  std::vector<std::vector<std::string>> table;
  for (const ring::SettingInfo& s : ring::settings())
    table.push_back({s.key, *s.values ? s.values : "(read only)", s.meaning});
  return "Without a setting, all are shown. A change takes effect within a tenth of a second, and holds until the "
         "process ends.\n\n" +
         tableText(table) +
         "\nExamples:  tracesmith config 4100\n           tracesmith config 4100 mode=watch window=2/100 budget=1%\n"
         "           tracesmith config -t all recording=off --master head:50051";
}

}  // namespace

void addConfig(Command& app) {
  auto o = std::make_shared<Options>();
  Command command = app.command("config", "Show or change what the probe in a running process records");
  command.positional("PID|SETTING", o->words, "Processes; and settings to show (KEY) or to change (KEY=VALUE)");
  command.flag("--all", o->all, "All processes under the probe on this machine");
  o->add(command);
  command.footer(footerText().c_str());
  command.run([o] { return check(*o); }, [o] { return run(*o); });
}

}  // namespace tracesmith::cli
