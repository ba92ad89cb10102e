#include "analysis/rows/comm_rules.hpp"

#include "base/file.hpp"

namespace tracesmith::analysis {
namespace {

constexpr std::string_view kBuiltIn =
    R"(# Kernels that are communication: PATTERN LIBRARY [OPERATION], the first line that matches counts.
# '*' stands for any text. Library "none": not communication.
ncclDevKernel_AllReduce*       nccl      all_reduce
ncclDevKernel_AllGather*       nccl      all_gather
ncclDevKernel_ReduceScatter*   nccl      reduce_scatter
ncclDevKernel_Broadcast*       nccl      broadcast
ncclDevKernel_SendRecv*        nccl      send_recv
*ncclDevKernel*                nccl
*ncclKernel*                   nccl
*ncclSymDevKernel*             nccl
*ncclSymkDevKernel*            nccl
nccl*                          nccl
*rccl*Kernel*                  rccl
*ncclDevFunc*                  rccl
*deep_ep::*combine*            deepep    combine
*deep_ep::*dispatch*           deepep    dispatch
*deep_ep::*                    deepep
*ep::internode*                deepep
*ep::intranode*                deepep
*ep::*dispatch*                deepep    dispatch
*ep::*combine*                 deepep    combine
*nvshmem*                      nvshmem
*nvshmemi*                     nvshmem
*rocshmem*                     rocshmem
*cross_device_reduce*          custom_all_reduce  all_reduce
*one_shot_all_reduce*          custom_all_reduce  all_reduce
*two_shot_all_reduce*          custom_all_reduce  all_reduce
*multimem_all_reduce*          custom_all_reduce  all_reduce
*multimem_all_gather*          custom_all_reduce  all_gather
*lamport_allreduce*            custom_all_reduce  all_reduce
*allreduce_fusion_kernel*      custom_all_reduce  all_reduce
*userbuffers*                  userbuffers
*mscclpp*                      mscclpp
*mscclKernel*                  msccl
hccl*                          hccl
)";

/// False: the line is no rule.
bool parseRule(std::string_view line, CommRule& rule) {
  std::string* fields[] = {&rule.pattern, &rule.library, &rule.op};
  size_t field = 0;
  for (size_t at = 0; at < line.size();) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == line.npos) break;
    if (field == 3) return false;
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    *fields[field++] = line.substr(at, end - at);
    at = end;
  }
  return field >= 2;
}

Status parse(std::string_view text, const std::string& path, std::vector<CommRule>& out) {
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    CommRule rule;
    if (!parseRule(line, rule))
      return Status::invalid(
          path + " line " + std::to_string(number) +
          " is not a rule: write PATTERN LIBRARY [OPERATION], as in \"*my_reduce* mine all_reduce\"");
    out.push_back(std::move(rule));
  }
  return {};
}

}  // namespace

bool globMatch(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == text[t]))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view CommRules::builtIn() { return kBuiltIn; }

CommRules::CommRules() { (void)parse(kBuiltIn, "built-in rules", rules_).ok(); }

Status CommRules::addFile(const std::string& path) {
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  std::string text(1 << 20, '\0');
  size_t got = 0;
  TS_TRY(file->readAt(0, text.data(), text.size(), got));
  if (got == text.size()) return Status::invalid(path + " is larger than 1 MB: not a file of rules");
  std::vector<CommRule> added;
  TS_TRY(parse(std::string_view(text).substr(0, got), path, added));
  rules_.insert(rules_.begin(), added.begin(), added.end());
  return {};
}

const CommRule* CommRules::match(std::string_view kernel) const {
  for (const CommRule& rule : rules_)
    if (globMatch(rule.pattern, kernel)) return rule.library == "none" ? nullptr : &rule;
  return nullptr;
}

}  // namespace tracesmith::analysis
