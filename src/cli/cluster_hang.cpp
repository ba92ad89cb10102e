// tracesmith cluster hang: does the job stand still, and who is missing?
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/stack_text.hpp"
#include "cli/terminal.hpp"
#include "model/travel_json.hpp"

namespace tracesmith::cli {
namespace {

using namespace model;

std::atomic<bool> g_stop{false};

/// "0-6,8": ranks that follow each other are one part.
std::string rankList(const std::vector<int32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += ranks[i] < 0 ? "?" : std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

/// Where the culprits are in their programs: those at the same place together.
void printWhere(const HangVerdict& v) {
  std::vector<Stacks> known;
  for (const Culprit& c : v.culprits)
    if (c.stack) known.push_back(*c.stack);
  if (known.empty()) return;
  std::printf("\n");
  printGroups(known);
  std::printf("\n");
}

void print(const cluster::HangStatus& status) {
  const HangVerdict& v = status.verdict;
  std::printf("%s\n", wrapped(nameOf(v.state) + (": " + v.verdict), textWidth()).c_str());
  if (v.since_ns != 0) std::printf("since %s\n", timeText(v.since_ns).c_str());
  std::vector<std::vector<std::string>> rows = {{"culprit", "node", "confidence", "why"}};
  char confidence[16];
  for (const Culprit& c : v.culprits) {
    std::snprintf(confidence, sizeof confidence, "%.2f", c.confidence);
    rows.push_back({c.rank >= 0 ? "rank " + std::to_string(c.rank) : "unknown", c.node, confidence, c.reason});
  }
  if (rows.size() > 1) std::printf("%s", tableText(rows).c_str());
  printWhere(v);
  rows = {{"communicator", "operation", "number", "bytes", "age", "ranks", "entered", "missing", ""}};
  for (const StuckOp& s : v.communicators)
    rows.push_back({s.comm, s.op, std::to_string(s.seq),
                    s.bytes ? humanBytes(static_cast<uint64_t>(std::max<int64_t>(0, *s.bytes))) : "-",
                    humanNs(s.age_s * 1e9), s.ranks < 0 ? "" : std::to_string(s.ranks), rankList(s.entered),
                    rankList(s.missing), s.mismatch});
  if (rows.size() > 1) std::printf("%s", tableText(rows).c_str());
}

void printAlert(const Alert& a) {
  std::printf("%s  %s  %s: %s\n", timeText(a.t_ns).c_str(), nameOf(a.severity), nameOf(a.kind), a.text.c_str());
}

struct Options : ClientCommand {
  bool watch = false;
};

int hang(const Options& o) {
  Result<std::unique_ptr<cluster::Client>> client = o.connect();
  if (!client) return fail(client.status());
  if (!o.watch) {
    Result<cluster::HangStatus> status = (*client)->hang();
    if (!status) return fail(status.status());
    if (o.json) {
      std::printf("%s\n", toJson(model::HangAnswer{status->verdict, status->alerts}).c_str());
      return 0;
    }
    print(*status);
    for (const Alert& a : status->alerts) printAlert(a);
    return 0;
  }
  for (int n : {SIGINT, SIGTERM}) ::signal(n, [](int) { g_stop = true; });
  int64_t told_ns = 0;
  std::string last;
  while (!g_stop) {
    Result<cluster::HangStatus> status = (*client)->hang();
    if (!status) return fail(status.status());
    const std::string state = nameOf(status->verdict.state);
    if (state != last && !o.json) print(*status);
    if (state != last && o.json) std::printf("%s\n", toJson(model::HangAnswer{status->verdict, {}}).c_str());
    last = state;
    for (const Alert& a : status->alerts) {
      if (a.t_ns <= told_ns) continue;
      o.json ? void(std::printf("%s\n", toJson(a).c_str())) : printAlert(a);
    }
    if (!status->alerts.empty()) told_ns = status->alerts.back().t_ns;
    std::fflush(stdout);
    for (int i = 0; i < 10 && !g_stop; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return 0;
}

}  // namespace

void addClusterHang(Command& cluster) {
  auto o = std::make_shared<Options>();
  Command command = cluster.command("hang", "Tell whether the job hangs, and which ranks are missing");
  command.flag("--watch", o->watch, "Keep running, and print changes and alerts as they happen");
  o->add(command);
  command.footer("Example:  tracesmith cluster hang --watch");
  command.run([o] { return hang(*o); });
}

}  // namespace tracesmith::cli
