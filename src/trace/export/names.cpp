#include "trace/export/names.hpp"

#include "trace/rows.hpp"

namespace tracesmith::trace {

Status Names::load(const Reader& reader) {
  // Names are views into the reader's string table, which stays as it is until refresh().
  TS_TRY(forEachRow(reader, tableOf<ProcessRow>(), {},
                    {processes::node, processes::pid, processes::rank, processes::name}, [&](const Row& row) {
                      std::string_view node = row.text(processes::node);
                      int64_t rank = row.slot(processes::rank), pid = row.slot(processes::pid);
                      processes_[{node, rank, pid}] = row.text(processes::name);
                      auto [it, first] = pids_.try_emplace({node, rank}, pid);
                      if (!first && it->second != pid) it->second = kNull;
                      return Status();
                    }));
  TS_TRY(forEachRow(reader, tableOf<ThreadRow>(), {}, {}, [&](const Row& row) {
    threads_[{row.text(threads::node), row.slot(threads::rank), row.slot(threads::pid), row.slot(threads::tid)}] =
        row.text(threads::name);
    return Status();
  }));
  return forEachRow(reader, tableOf<DeviceRow>(), {}, {devices::node, devices::device, devices::name},
                    [&](const Row& row) {
                      devices_[{row.text(devices::node), row.slot(devices::device)}] = row.text(devices::name);
                      return Status();
                    });
}

std::string Names::process(std::string_view node, int64_t rank, int64_t pid) const {
  std::string out = rank == kNull ? "" : "rank " + std::to_string(rank);
  if (std::string_view name = program(node, rank, pid); !name.empty())
    out += (out.empty() ? "" : " · ") + std::string(name);
  if (pid == kNull) return out.empty() ? "process" : out;
  return out.empty() ? "process " + std::to_string(pid) : out + " (pid " + std::to_string(pid) + ")";
}

std::string_view Names::program(std::string_view node, int64_t rank, int64_t pid) const {
  auto it = processes_.find({node, rank, pid});
  return it == processes_.end() ? std::string_view() : it->second;
}

std::string Names::thread(std::string_view node, int64_t rank, int64_t pid, int64_t tid) const {
  if (tid == kNull) return "no thread";
  auto it = threads_.find({node, rank, pid, tid});
  if (it == threads_.end() || it->second.empty()) return "thread " + std::to_string(tid);
  return std::string(it->second) + " (" + std::to_string(tid) + ")";
}

std::string Names::stream(std::string_view node, int64_t rank, int64_t device, int64_t stream) const {
  if (stream == kNull) return "no stream";
  std::string out = "stream " + std::to_string(stream);
  auto it = threads_.find({node, rank, device, stream});
  // Kineto calls streams "stream 7 7"; that says nothing new.
  if (it != threads_.end() && !it->second.empty() && !it->second.starts_with("stream "))
    out += " · " + std::string(it->second);
  return out;
}

std::string Names::device(std::string_view node, int64_t device) const {
  if (device == kNull) return "GPU";
  std::string out = "GPU " + std::to_string(device);
  auto it = devices_.find({node, device});
  if (it != devices_.end() && !it->second.empty()) out += " · " + std::string(it->second);
  return out;
}

int64_t Names::pidOf(std::string_view node, int64_t rank) const {
  auto it = pids_.find({node, rank});
  return it == pids_.end() ? kNull : it->second;
}

}  // namespace tracesmith::trace
