// Time lost between roles: a trainer that waits while rollouts are generated, and the other way round.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/intervals.hpp"
#include "analysis/verdict/job_data.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// Between two kernels the host launches the next one: gaps up to this length are part of the work.
constexpr int64_t kLaunchGapNs = 1'000'000;

struct Worker {
  size_t role = 0;
  std::vector<Interval> device, host;  // reference clock; unsorted until settled
  std::vector<Interval> works;

  /// Of a process that used no device, its ranges say when it worked.
  void settle() {
    std::vector<Interval>& all = device.empty() ? host : device;
    std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.from < b.from; });
    for (const Interval& i : all)
      if (works.empty() || i.from - works.back().to > kLaunchGapNs)
        works.push_back(i);
      else
        works.back().to = std::max(works.back().to, i.to);
    device = host = {};
  }
};

void add(std::vector<Interval>& to, int64_t from, int64_t until) {
  if (!to.empty() && from >= to.back().from && from - to.back().to <= kLaunchGapNs)
    to.back().to = std::max(to.back().to, until);
  else
    to.push_back({from, until});
}

class Roles {
 public:
  Roles(const Reader& reader, const NameNumbers& names, const JobData& job, const std::vector<uint8_t>& comm)
      : reader_(reader), names_(names), job_(job), comm_(comm) {
    for (uint32_t n = 0; n < names.size(); ++n) {
      const std::string_view name = names.text(n);
      waits_.push_back(phaseOfName(name) == Phase::data || name.starts_with("wait") || name.starts_with(model::kStall));
    }
  }

  Result<std::vector<RoleResult>> run() {
    TS_TRY(findWorkers());
    if (roles_.size() < 2) return std::vector<RoleResult>();
    TS_TRY(findWork());
    return account();
  }

 private:
  using Who = std::pair<int64_t, int64_t>;  // node and process id

  Status findWorkers() {
    std::map<Who, std::string> role_of;  // the last that was said
    TS_TRY(eachRow<ProcessRow>(reader_, names_, {processes::node, processes::pid, processes::role},
                               [&](const ProcessRow& row, auto&&) {
                                 if (row.role != kNull && row.pid != kNull)
                                   role_of[{row.node, row.pid}] = names_.text(static_cast<uint32_t>(row.role));
                               }));
    std::set<std::string> roles;
    for (const auto& [who, role] : role_of) roles.insert(role);
    roles_.assign(roles.begin(), roles.end());
    for (const auto& [who, role] : role_of)
      workers_[who].role = static_cast<size_t>(std::lower_bound(roles_.begin(), roles_.end(), role) - roles_.begin());
    return {};
  }

  Status findWork() {
    constexpr uint64_t kDevice = 1ull << static_cast<int>(EventType::kernel) |
                                 1ull << static_cast<int>(EventType::memcpy) |
                                 1ull << static_cast<int>(EventType::memset);
    constexpr uint64_t kHost = 1ull << static_cast<int>(EventType::annotation);
    Selection selection;
    selection.types = kDevice | kHost;
    RowCursor<EventRow> rows(reader_, {events::ts, events::dur, events::type, events::name, events::node, events::pid},
                             std::move(selection), &names_);
    while (rows.next()) {
      const EventRow& row = rows.row();
      if (row.ts == kNull || row.dur == kNull || row.dur <= 0 || row.name == kNull) continue;
      auto worker = workers_.find({row.node, row.pid});
      if (worker == workers_.end()) continue;
      const auto name = static_cast<size_t>(row.name);
      const bool on_device = kDevice >> row.type & 1;
      if (on_device ? comm_[name] : waits_[name]) continue;
      const ClockTable& clock = clockOfNode(row.node);
      add(on_device ? worker->second.device : worker->second.host, clock.toReference(row.ts),
          clock.toReference(row.ts + row.dur));
    }
    TS_TRY(rows.status());
    for (auto& [who, w] : workers_) w.settle();
    return {};
  }

  const ClockTable& clockOfNode(int64_t node) {
    auto [it, fresh] = clocks_.try_emplace(node, nullptr);
    if (fresh)
      it->second = &clockOf(job_.clocks, node == kNull ? "" : std::string(names_.text(static_cast<uint32_t>(node))));
    return *it->second;
  }

  /// Walks over every moment at which anybody begins or stops to work.
  std::vector<RoleResult> account() const {
    struct Change {
      int64_t at;
      size_t role;
      int by;
    };
    std::vector<Change> changes;
    std::vector<RoleResult> out(roles_.size());
    std::vector<int64_t> count(roles_.size(), 0);
    for (const auto& [who, w] : workers_) {
      ++count[w.role];
      for (const Interval& i : w.works) {
        changes.push_back({i.from, w.role, 1});
        changes.push_back({i.to, w.role, -1});
      }
    }
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
    std::vector<int64_t> at_work(roles_.size(), 0);
    std::vector<double> works(roles_.size(), 0), own(roles_.size(), 0);
    std::vector<std::map<std::vector<size_t>, double>> others(roles_.size());
    double all = 0;
    for (size_t i = 0; i < changes.size();) {
      const int64_t now = changes[i].at;
      for (; i < changes.size() && changes[i].at == now; ++i) at_work[changes[i].role] += changes[i].by;
      if (i == changes.size()) break;
      const auto ns = static_cast<double>(changes[i].at - now);
      all += ns;
      for (size_t r = 0; r < roles_.size(); ++r) {
        const double part = count[r] == 0 ? 0 : static_cast<double>(at_work[r]) / static_cast<double>(count[r]);
        works[r] += part * ns;
        if (at_work[r] > 0) own[r] += (1 - part) * ns;
        if (at_work[r] > 0) continue;
        std::vector<size_t> busy;
        for (size_t o = 0; o < roles_.size(); ++o)
          if (at_work[o] > 0) busy.push_back(o);
        others[r][busy] += ns;
      }
    }
    for (size_t r = 0; r < roles_.size(); ++r) {
      RoleResult& result = out[r];
      result.role = roles_[r];
      result.processes = static_cast<int>(count[r]);
      if (all <= 0) continue;
      result.works_pct = 100 * works[r] / all;
      result.own_pct = 100 * own[r] / all;
      for (const auto& [busy, ns] : others[r]) {
        RoleWait wait;
        for (size_t o : busy) wait.working += (wait.working.empty() ? "" : " and ") + roles_[o];
        wait.pct = 100 * ns / all;
        result.waits.push_back(std::move(wait));
      }
      std::sort(result.waits.begin(), result.waits.end(),
                [](const RoleWait& a, const RoleWait& b) { return a.pct > b.pct; });
    }
    return out;
  }

  const Reader& reader_;
  const NameNumbers& names_;
  const JobData& job_;
  const std::vector<uint8_t>& comm_;  // by name
  std::vector<uint8_t> waits_;        // by name: a range in which the host does not work
  std::vector<std::string> roles_;
  std::map<Who, Worker> workers_;
  std::map<int64_t, const ClockTable*> clocks_;
};

}  // namespace

Status readRoles(const Reader& reader, const NameNumbers& names, JobData& job) {
  return eachRow<ProcessRow>(reader, names, {processes::rank, processes::pid, processes::role},
                             [&](const ProcessRow& row, auto&&) {
                               if (row.role != kNull) job.role_of[processOf(row.rank, row.pid)] = row.role;
                             });
}

Status findRoles(const Reader& reader, const NameNumbers& names, const JobData& job, const std::vector<uint8_t>& comm,
                 Analysis& out) {
  Result<std::vector<RoleResult>> roles = Roles(reader, names, job, comm).run();
  if (!roles) return roles.status();
  out.roles = std::move(*roles);
  constexpr double kWorthSaying = 5;  // % of the time
  const RoleWait* most = nullptr;
  std::string who;
  for (const RoleResult& r : out.roles)
    for (const RoleWait& w : r.waits)
      if (!w.working.empty() && w.pct >= kWorthSaying && (!most || w.pct > most->pct)) most = &w, who = r.role;
  if (!most) return {};
  char share[32];
  std::snprintf(share, sizeof share, "%.0f %%", most->pct);
  out.notes.push_back("between roles: for " + std::string(share) + " of the time no " + who + " process worked while " +
                      most->working + " did");
  return {};
}

}  // namespace tracesmith::analysis
