#include "cluster/wire/role_ranks.hpp"

#include "trace/rows.hpp"

namespace tracesmith::cluster {

using namespace trace;

Status RoleRanks::look(const Reader& reader, const std::string& node) {
  struct Said {
    int64_t rank = kNull;
    std::string role;
  };
  std::map<int64_t, Said> said;  // by process id: the last that was said
  TS_TRY(forEachRow(reader, tableOf<ProcessRow>(), {}, {}, [&](const Row& row) {
    if (row.slot(processes::pid) == kNull) return Status();
    Said& s = said[row.slot(processes::pid)];
    s.rank = row.slot(processes::rank);
    if (const std::string_view role = row.text(processes::role); !role.empty()) s.role = role;
    return Status();
  }));
  pids_.clear();
  ranks_.clear();
  for (const auto& [pid, s] : said) {
    if (s.rank == kNull) continue;
    const Process process{node, pid};
    Owner& owner = owners_.try_emplace(s.rank, Owner{process, s.role}).first->second;
    if (owner.process == process)
      owner.role = s.role;  // it may say so late
    else if (owner.process.first != node && !s.role.empty() && owner.role != s.role)
      without_.insert(process);
    if (without_.contains(process)) pids_.insert(pid), ranks_.insert(s.rank);
  }
  for (const auto& [pid, s] : said)
    if (!pids_.contains(pid)) ranks_.erase(s.rank);
  return {};
}

void RoleRanks::apply(const TableInfo& table, int64_t* slots) const {
  const int rank = table.find("rank"), pid = table.find("pid");
  if (rank < 0) return;
  const bool its = pid >= 0 ? pids_.contains(slots[pid]) : ranks_.contains(slots[rank]);
  if (its) slots[rank] = kNull;
}

}  // namespace tracesmith::cluster
