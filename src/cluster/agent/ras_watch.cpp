#include "cluster/agent/ras_watch.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "access/owner.hpp"
#include "base/clock.hpp"
#include "cluster/agent/process_stat.hpp"
#include "hardware/process.hpp"
#include "model/operation.hpp"

namespace tracesmith::cluster {

using namespace analysis::live;
using namespace std::chrono_literals;

namespace {

constexpr auto kPatience = 5s;  // NCCL's own, for ranks that are silent
constexpr auto kRest = 2000ms, kMostRest = 60000ms;
constexpr auto kRestPerNode = 250ms;  // every agent of a job asks all its ranks: together at most four times a second
constexpr int64_t kPortsNs = 15'000'000'000;
constexpr int64_t kForgetNs = 60'000'000'000;  // what has ended, and communicators nobody tells of any more
constexpr size_t kMostProcesses = 1024, kMostComms = 256;

std::set<std::string> ownAddresses() {
  std::set<std::string> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    char text[INET6_ADDRSTRLEN] = "";
    if (!i->ifa_addr) continue;
    if (i->ifa_addr->sa_family == AF_INET)
      ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    else if (i->ifa_addr->sa_family == AF_INET6)
      ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr, text, sizeof text);
    if (text[0]) all.insert(text);
  }
  ::freeifaddrs(list);
  return all;
}

}  // namespace

bool RasRanks::isLocal(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || addresses_.contains(host);
}

void RasRanks::take(const process::RasAnswer& answer, uint32_t uid, int64_t now) {
  addresses_ = ownAddresses();
  for (const process::RasCommunicator& comm : answer.communicators)
    for (const process::RasRank& rank : comm.ranks) {
      if (rank.missing || rank.rank < 0 || !isLocal(rank.host)) continue;
      const std::optional<int64_t> pid = process::hostPid(root_, rank.pid, uid);
      if (!pid || (processes_.size() >= kMostProcesses && !processes_.contains(*pid))) continue;
      Process& p = processes_[*pid];
      if (p.comms.size() >= kMostComms && !p.comms.contains(comm.hash)) continue;
      p.nccl = answer.nccl;
      Member& m = p.comms[comm.hash];
      m.rank = rank.rank;
      m.size = comm.size;
      m.told_ns = now;
      for (const auto& [function, launched] : rank.launched) {
        if (launched == 0) continue;
        Count& c = m.counts[model::opNameOf(function)];
        if (c.launched == launched) continue;
        c.launched = launched;
        c.since_ns = now;
      }
    }
}

void RasRanks::addHost(int64_t pid, Process& p, int64_t now, ProcessReport& report) const {
  const std::optional<ProcessStat> stat = readStat(pid);
  if (!stat) return;
  if (stat->stopped) report.state = ProcessState::stopped;
  const std::optional<uint64_t> io = readIo(pid);
  if (p.read_ns != 0 && now > p.read_ns) {
    const auto ns = static_cast<double>(now - p.read_ns);
    if (stat->cpu_ns >= p.cpu_ns) report.cpu_share = static_cast<double>(stat->cpu_ns - p.cpu_ns) / ns;
    if (io && *io >= p.io_bytes) report.io_bytes_per_s = static_cast<double>(*io - p.io_bytes) / ns * 1e9;
  }
  p.cpu_ns = stat->cpu_ns;
  p.io_bytes = io.value_or(0);
  p.read_ns = now;
}

std::vector<ProcessReport> RasRanks::report(const std::vector<ProcessReport>& probed, int64_t now) {
  std::set<int64_t> pids;
  std::set<uint64_t> hashes;
  for (const ProcessReport& p : probed) {
    pids.insert(p.pid);
    for (const CommState& c : p.comms) hashes.insert(c.comm);
  }
  std::vector<ProcessReport> all;
  for (auto& [pid, p] : processes_) {
    // What a communicator's ranks tell must be of one kind: the probe numbers operations in another way.
    const bool there = p.gone_ns == 0;
    std::erase_if(p.comms, [&](const auto& c) {
      return hashes.contains(c.first) || (there && now - c.second.told_ns > kForgetNs);
    });
    if (p.comms.empty() || pids.contains(pid)) continue;
    ProcessReport& r = all.emplace_back();
    r.pid = pid;
    r.nccl = p.nccl;
    const bool gone = !readStat(pid);
    if (gone && p.gone_ns == 0) p.gone_ns = now;
    if (gone) {
      r.state = ProcessState::dead;
    } else {
      addHost(pid, p, now, r);
      if (const hardware::ProcessInfo info = hardware::processInfo(root_, pid); info.rank != hardware::kUnknown)
        p.rank = static_cast<int32_t>(info.rank);
    }
    r.rank = p.rank;
    uint32_t stream = 0;
    for (const auto& [hash, m] : p.comms) {
      CommState& c = r.comms.emplace_back();
      c.comm = hash;
      c.group_rank = m.rank;
      c.size = m.size;
      // Nobody counts what has ended; that it has is known now.
      r.counted_ns = std::max(r.counted_ns.value_or(0), gone ? 0 : now - m.told_ns);
      std::vector<std::pair<int64_t, std::string>> order;  // in which they were launched, as far as it was seen
      for (const auto& [op, count] : m.counts) {
        c.ops.push_back({op, count.launched, {}, -1});
        order.emplace_back(count.since_ns, op);
      }
      std::sort(order.begin(), order.end());
      uint32_t before = 0;
      for (const auto& [since, op] : order) {
        InFlight& f = r.in_flight.emplace_back();
        f.op = op;
        f.comm = hash;
        f.seq = m.counts.at(op).launched;
        f.stream = stream;
        f.before = before++;
        f.age_ns = m.told_ns - since;
        f.wait_ns = f.before == 0 ? f.age_ns : 0;
        f.unseen = true;
      }
      ++stream;
    }
  }
  std::erase_if(processes_, [&](const auto& p) {
    return p.second.comms.empty() || (p.second.gone_ns != 0 && now - p.second.gone_ns > kForgetNs);
  });
  return all;
}

RasWatch::RasWatch(std::string root, std::optional<uint16_t> port)
    : root_(std::move(root)), port_(port), ranks_(root_) {
  thread_ = std::thread([this] { loop(); });
}

RasWatch::~RasWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

std::vector<ProcessReport> RasWatch::report(const std::vector<ProcessReport>& probed) {
  std::lock_guard lock(mutex_);
  return ranks_.report(probed, rawClock());
}

std::chrono::milliseconds RasWatch::askAll() {
  if (const int64_t now = rawClock(); port_) {
    ports_ = {*port_};
  } else if (ports_.empty() || now - ports_ns_ > kPortsNs) {
    ports_ = process::rasPorts(root_);
    ports_ns_ = now;
  }
  std::chrono::milliseconds rest = kRest;
  for (const access::Listener& l : access::listenersAt(ports_)) {
    const int64_t asked_ns = rawClock();
    const Result<std::string> text = process::askRas(l.host, l.port, kPatience, [this] {
      std::lock_guard lock(mutex_);
      return stop_;
    });
    if (!text) continue;
    const Result<process::RasAnswer> answer = process::parseRas(*text);
    if (!answer) continue;
    std::set<std::string> nodes;
    for (const process::RasCommunicator& c : answer->communicators)
      for (const process::RasRank& r : c.ranks) nodes.insert(r.host);
    // An answer that took long costs all ranks something, too.
    rest = std::max({rest, kRestPerNode * static_cast<int64_t>(nodes.size()),
                     std::chrono::milliseconds((rawClock() - asked_ns) / 1'000'000 * 4)});
    std::lock_guard lock(mutex_);
    ranks_.take(*answer, l.uid, asked_ns);
  }
  return std::min<std::chrono::milliseconds>(rest, kMostRest);
}

void RasWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const std::chrono::milliseconds rest = askAll();
    lock.lock();
    stopped_.wait_for(lock, rest, [&] { return stop_; });
  }
}

}  // namespace tracesmith::cluster
