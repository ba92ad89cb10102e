// What the Python hooks tell, and what they say of themselves.
#include <map>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"
#include "model/hook_names.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// Notes of `out`: hooks that turned themselves off, each reason once.
Status sayWhatIsOff(const Reader& reader, const NameNumbers& names, const JobData& job, Analysis& out) {
  struct Ranks {
    std::string text;  // of the first
    int64_t first = kNull;
    uint64_t count = 0;
  };
  std::map<bool, Ranks> found;  // true: a hook failed
  TS_TRY(eachRow<MetadataRow>(reader, names, {metadata::rank, metadata::key, metadata::value},
                              [&](const MetadataRow& row, auto&& get) {
                                if (row.key == kNull) return;
                                const std::string_view key = names.text(static_cast<uint32_t>(row.key));
                                if (key != model::kHooksOff && key != model::kHookFailed) return;
                                Ranks& ranks = found[key == model::kHookFailed];
                                if (ranks.count++ > 0) return;
                                ranks.text = get(metadata::value);
                                ranks.first = row.rank;
                              }));
  for (const auto& [failed, ranks] : found) {
    const bool one = job.ranks.size() < 2 || ranks.first == kNull;
    const std::string who = one ? "" : "on rank " + std::to_string(ranks.first) + ", ";
    const std::string more =
        ranks.count < 2 ? "" : "; similar in " + counted(ranks.count - 1, "other process", "other processes");
    out.notes.push_back(who + ranks.text + more);
  }
  return {};
}

}  // namespace

Status sayHooks(const Reader& reader, const NameNumbers& names, const JobData& job, const std::vector<uint8_t>& comm,
                size_t threads, Analysis& out) {
  TS_TRY(findRoles(reader, names, job, comm, out));
  TS_TRY(sayStalls(reader, names, job, out));
  TS_TRY(sayMemory(reader, names, out));
  TS_TRY(sayCompilations(reader, names, out));
  TS_TRY(findModules(reader, names, job, comm, threads, out));
  TS_TRY(findRate(reader, names, job, out));
  return sayWhatIsOff(reader, names, job, out);
}

}  // namespace tracesmith::analysis
