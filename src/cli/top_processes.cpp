// The processes of `tracesmith top`.
#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cli/top_line.hpp"

namespace tracesmith::cli {

using namespace hardware;
using Value = Latest::Value;

namespace {

std::string orDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string amount(const std::optional<double>& v) {
  if (!v) return "-";
  return format(*v >= 1e6   ? "%.1fM"
                : *v >= 1e4 ? "%.1fk"
                : *v >= 100 ? "%.0f"
                            : "%.1f",
                *v >= 1e6   ? *v / 1e6
                : *v >= 1e4 ? *v / 1e3
                            : *v);
}

struct ProcessColumn {
  const char* heading;
  size_t width;
  std::string (*text)(const TopProcess& process);
};

/// What the processes have: of training only where one trains, and on a narrow screen instead of jobs and users.
std::vector<ProcessColumn> columnsOf(const std::vector<TopProcess>& processes, const TopView& view) {
  auto any = [&](auto has) { return std::any_of(processes.begin(), processes.end(), has); };
  std::vector<ProcessColumn> all = {
      {"PID", 9, [](const TopProcess& p) { return std::to_string(p.info.pid); }},
      {"GPU", 4, [](const TopProcess& p) { return p.gpu < 0 ? "-" : std::to_string(p.gpu); }},
      {"memory", 10,
       [](const TopProcess& p) { return p.bytes == p.bytes ? humanBytes(static_cast<uint64_t>(p.bytes)) : "-"; }},
      {"rank", 6, [](const TopProcess& p) { return p.info.rank == kUnknown ? "-" : std::to_string(p.info.rank); }}};
  if (any([](const TopProcess& p) { return !p.role.empty(); }))
    all.push_back({"role", 10, [](const TopProcess& p) { return shorten(orDash(printable(p.role)), 9); }});
  const bool training = any([](const TopProcess& p) { return p.step.has_value(); });
  if (training) {
    all.push_back({"step", 8, [](const TopProcess& p) { return p.step ? std::to_string(p.step->number) : "-"; }});
    if (any([](const TopProcess& p) { return p.rates.mfu_percent.has_value(); }))
      all.push_back({"MFU", 6, [](const TopProcess& p) {
                       return p.rates.mfu_percent ? format("%.0f%%", *p.rates.mfu_percent) : "-";
                     }});
    if (any([](const TopProcess& p) { return p.rates.samples_per_s.has_value(); }))
      all.push_back({"samples/s", 11, [](const TopProcess& p) { return amount(p.rates.samples_per_s); }});
    if (any([](const TopProcess& p) { return p.rates.tokens_per_s.has_value(); }))
      all.push_back({"tokens/s", 10, [](const TopProcess& p) { return amount(p.rates.tokens_per_s); }});
  }
  if (!training || view.width >= 110) {
    all.push_back({"job", 11, [](const TopProcess& p) { return shorten(orDash(printable(p.info.job)), 10); }});
    all.push_back({"user", 9, [](const TopProcess& p) { return shorten(printable(p.info.user), 8); }});
  }
  return all;
}

}  // namespace

std::vector<TopProcess> topProcesses(const Latest::State& state, const std::string& root,
                                     const std::vector<capture::ProcessNow>& recorded) {
  std::vector<TopProcess> out;
  for (const Value& v : state.values) {
    int64_t pid = 0;
    if (v.metric != &metricInfo(Metric::gpu_process_memory_bytes) || !parseInt(v.part, pid) ||
        rawClock() - v.ts_ns > kFreshNs)
      continue;
    TopProcess& p = out.emplace_back();
    p.info = processInfo(root, pid);
    p.gpu = v.device;
    p.bytes = v.value;
  }
  for (const capture::ProcessNow& r : recorded) {
    auto add = [&r](TopProcess& p) {
      if (r.rank >= 0) p.info.rank = r.rank;
      p.role = r.role;
      p.simulated = r.simulated;
      p.step = r.step;
      p.rates = r.rates;
    };
    bool known = false;
    for (TopProcess& p : out)
      if (p.info.pid == r.pid && !r.simulated) add(p), known = true;
    if (known) continue;
    TopProcess& p = out.emplace_back();
    p.info.pid = r.pid;
    if (!r.simulated) p.info = processInfo(root, r.pid);
    if (p.info.command.empty()) p.info.command = r.command;
    if (r.simulated) p.info.command = "(simulated) " + p.info.command;
    p.bytes = std::nan("");
    add(p);
  }
  return out;
}

std::vector<std::string> processLines(const std::vector<TopProcess>& processes, const TopView& view) {
  const std::vector<ProcessColumn> columns = columnsOf(processes, view);
  auto line = [&](auto text, const std::string& command, const char* color) {
    Line l(view);
    size_t at = 0;
    for (const ProcessColumn& c : columns) l.add(text(c), color).to(at += c.width);
    return l.add(command, color).text();
  };
  std::vector<std::string> lines = {line([](const ProcessColumn& c) { return c.heading; }, "command", kDim)};
  for (const TopProcess& p : processes)
    lines.push_back(line([&p](const ProcessColumn& c) { return c.text(p); }, printable(p.info.command), nullptr));
  return lines;
}

}  // namespace tracesmith::cli
