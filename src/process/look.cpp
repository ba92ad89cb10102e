#include "process/look.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "capture/ring/reader.hpp"
#include "capture/ring/settings.hpp"
#include "hardware/process.hpp"
#include "process/act.hpp"
#include "process/groups.hpp"
#include "process/list.hpp"
#include "process/rdma.hpp"

namespace tracesmith::process {
namespace {

bool has(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

constexpr int kRatesMs = 500;

/// Only the thread that says where the process is.
void shorten(Stacks& stacks) {
  if (stacks.threads.empty()) return;
  ThreadStack telling = std::move(stacks.threads[tellingThread(stacks)]);
  stacks.threads.clear();
  stacks.threads.push_back(std::move(telling));
}

}  // namespace

std::vector<pid_t> chosen(const std::string& root, const model::ProcessQuery& query,
                          const std::vector<capture::ProcessNow>& recorded, size_t& refused) {
  if (!query.pids.empty()) return {query.pids.begin(), query.pids.end()};
  std::vector<pid_t> pids = pythonProcesses(refused);
  std::set<pid_t> ranked;  // the probe says more of them than their environment
  for (const capture::ProcessNow& p : recorded) {
    if (p.simulated) continue;
    const auto pid = static_cast<pid_t>(p.pid);
    if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
    if (has(query.ranks, p.rank)) ranked.insert(pid);
  }
  if (!query.ranks.empty())
    std::erase_if(pids, [&](pid_t pid) {
      return !ranked.contains(pid) && !has(query.ranks, hardware::processInfo(root, pid).rank);
    });
  return pids;
}

namespace {

/// What the probes do that the question is about, once what it sets is set.
std::vector<model::ProbeSettings> settingsOf(const model::ProcessQuery& query,
                                             const std::vector<capture::ProcessNow>& recorded) {
  std::vector<model::ProbeSettings> all;
  for (const capture::ProcessNow& p : recorded) {
    if ((!query.pids.empty() && !has(query.pids, p.pid)) || (!query.ranks.empty() && !has(query.ranks, p.rank)))
      continue;
    const Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(p.ring);
    if (!reader) continue;  // it has ended
    ring::RingHeader& header = (*reader)->header();
    const auto now = [&] { return ring::readSettings(header, (*reader)->attachedReader()); };
    const std::vector<ring::SettingValue> before = now();
    model::ProbeSettings& of = all.emplace_back();
    of.pid = p.pid;
    if (p.rank >= 0) of.rank = p.rank;
    of.command = p.command;
    of.simulated = p.simulated;
    of.problem = ring::writeSettings(header, query.set).message();
    const std::vector<ring::SettingValue> after = query.set.empty() ? before : now();
    for (size_t i = 0; i < after.size(); ++i)
      of.settings.push_back({after[i].key, after[i].value, after[i] == before[i] ? "" : before[i].value});
  }
  return all;
}

std::optional<int64_t> rankOf(const std::string& root, int64_t pid, const std::vector<capture::ProcessNow>& recorded) {
  for (const capture::ProcessNow& p : recorded)
    if (p.pid == pid && p.rank >= 0 && !p.simulated) return p.rank;
  const int64_t rank = hardware::processInfo(root, static_cast<pid_t>(pid)).rank;
  return rank == hardware::kUnknown ? std::nullopt : std::optional(rank);
}

/// Nothing is done to processes that nobody named, unless they are ranks of a job.
std::vector<int64_t> rankedProcesses(const std::string& root, const model::ProcessQuery& query,
                                     const std::vector<capture::ProcessNow>& recorded) {
  size_t refused = 0;
  std::vector<int64_t> ranked;
  for (const pid_t pid : chosen(root, query, recorded, refused))
    if (rankOf(root, pid, recorded)) ranked.push_back(pid);
  return ranked;
}

}  // namespace

model::NodeProcesses lookAt(const std::string& root, const model::ProcessQuery& query,
                            const std::vector<capture::ProcessNow>& recorded,
                            const std::function<hardware::Latest::State()>& gpus, const std::atomic<bool>* stop) {
  model::NodeProcesses answer;
  size_t refused = 0;
  if (query.action) {
    answer.outcomes =
        act(*query.action, query.pids.empty() ? rankedProcesses(root, query, recorded) : query.pids, stop);
    for (model::ActionOutcome& o : answer.outcomes) o.rank = rankOf(root, o.pid, recorded);
    return answer;
  }
  if (query.sample) {
    answer.sampled = sampleFor(*query.sample, chosen(root, query, recorded, refused), recorded, stop);
    answer.not_permitted = refused;
    return answer;
  }
  if (query.settings || !query.set.empty()) {
    answer.settings = settingsOf(query, recorded);
    return answer;
  }
  if (query.rdma) {
    RdmaWatch ports(root);
    const hardware::Latest::State state = gpus();
    if (!ports.look(state, recorded).empty()) {  // rates need two readings
      std::this_thread::sleep_for(std::chrono::milliseconds(kRatesMs));
      answer.rdma = ports.look(state, recorded);
    }
    return answer;
  }
  if (!query.stacks) {
    answer.processes = list(root, recorded, gpus);
    std::erase_if(answer.processes, [&](const model::ProcessEntry& p) {
      return (!query.pids.empty() && !has(query.pids, p.pid)) ||
             (!query.ranks.empty() && !(p.rank && has(query.ranks, *p.rank)));
    });
    return answer;
  }
  const BacktraceOptions options{.native = query.native, .locals = query.locals};
  answer.stacks = backtraces(chosen(root, query, recorded, refused), options, refused);
  answer.not_permitted = refused;
  for (Stacks& s : answer.stacks) {
    for (const capture::ProcessNow& p : recorded)
      if (p.pid == s.pid && p.rank >= 0 && !p.simulated) s.rank = p.rank;
    if (query.brief) shorten(s);
  }
  return answer;
}

}  // namespace tracesmith::process
