// Processes, threads and GPUs of a Chrome trace: their numbers and names.
#include "trace/category.hpp"
#include "trace/export/chrome.hpp"

namespace tracesmith::trace {

/// Writes a metadata event of a process; fill(json) writes its args.
template <typename Fill>
Status Chrome::metadata(std::string_view name, int64_t pid, int64_t tid, Fill fill) {
  JsonWriter json = open("M");
  json.field("name", name);
  place(json, pid, tid);
  json.key("args").beginObject();
  fill(json);
  json.endObject();
  return close(json);
}

/// Says what a number of this file stands for, before its first event.
Status Chrome::describe(int64_t number, std::string_view node, int64_t rank, int64_t pid, int64_t device) {
  if (!several_ && (device == kNull || devices_described_)) return {};  // processNames() did
  std::string name = device == kNull ? names_.process(node, rank, pid) : names_.device(node, device);
  if (several_ && device != kNull && rank != kNull) name = "rank " + std::to_string(rank) + " · " + name;
  TS_TRY(metadata("process_name", number, 0, [&](JsonWriter& json) { json.field("name", name); }));
  std::string label = device == kNull ? "CPU" : "GPU " + std::to_string(device);
  TS_TRY(metadata("process_labels", number, 0, [&](JsonWriter& json) { json.field("labels", label); }));
  if (!several_) return {};
  // Who it really is, as the numbers of this file are not those of the system.
  return metadata(kChromeOwner, number, 0, [&](JsonWriter& json) {
    if (!node.empty()) json.field("node", node);
    if (rank != kNull) json.field("rank", rank);
    if (pid != kNull) json.field("pid", pid);
    if (std::string_view program = names_.program(node, rank, pid); !program.empty()) json.field("name", program);
    if (device != kNull) json.field("device", device);
  });
}

int64_t Chrome::numberOf(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status) {
  if (!several_ && device != kNull) pid = kNull;  // one number for a GPU, whoever uses it
  auto [it, first] = numbers_.try_emplace({node, rank, pid, device}, device != kNull ? device : pid);
  if (first && several_) it->second = static_cast<int64_t>(numbers_.size());
  if (first) status = describe(it->second, node, rank, pid, device);
  return it->second;
}

int64_t Chrome::hostPid(std::string_view node, int64_t rank, int64_t pid, Status& status) {
  return numberOf(node, rank, pid, kNull, status);
}

int64_t Chrome::devicePid(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status) {
  return numberOf(node, rank, pid == kNull ? names_.pidOf(node, rank) : pid, device, status);
}

int64_t Chrome::trackPid(std::string_view node, int64_t rank, int64_t pid, Status& status) {
  bool is_device = pid != kNull && !names_.isProcess(node, rank, pid) && names_.isDevice(node, pid);
  return is_device ? devicePid(node, rank, kNull, pid, status) : hostPid(node, rank, pid, status);
}

/// With one rank, whatever was known of its processes: also what an imported file said of the devices' numbers.
Status Chrome::processNames(int64_t rank) {
  if (several_) return {};
  auto details = [&](int64_t pid) {
    for (const char* key : {"labels", "sort_index"})
      if (std::string value = args_.json(key); !value.empty())
        TS_TRY(metadata(std::string("process_") + key, pid, 0, [&](JsonWriter& json) { json.key(key).raw(value); }));
    return Status();
  };
  Status known = forEachRow(export_.reader, tableOf<ProcessRow>(), {}, {}, [&](const Row& row) {
    int64_t pid = row.slot(processes::pid);
    if (row.slot(processes::rank) != rank || pid == kNull) return Status();
    if (std::string_view name = row.text(processes::name); name.data())
      TS_TRY(metadata("process_name", pid, 0, [&](JsonWriter& json) { json.field("name", name); }));
    args_.parse(row.text(processes::args));
    return details(pid);
  });
  TS_TRY(known);
  return forEachRow(export_.reader, tableOf<MetadataRow>(), {}, {}, [&](const Row& row) {
    std::string_view key = row.text(metadata::key), value = row.text(metadata::value);
    if (row.slot(metadata::rank) != rank || !isChromeMetadataEvent(key, value) || !args_.parse(value)) return Status();
    int64_t pid = args_.integer("pid");
    if (key != "device_process") {
      std::string args = args_.json("args");
      JsonWriter json = open("M");
      json.field("name", key);
      place(json, pid, args_.integer("tid"));
      json.key("args").raw(args);
      return close(json);
    }
    devices_described_ = true;
    if (std::string name = args_.json("name"); !name.empty())
      TS_TRY(metadata("process_name", pid, 0, [&](JsonWriter& json) { json.key("name").raw(name); }));
    return details(pid);
  });
}

Status Chrome::threadNames(int64_t rank) {
  return forEachRow(export_.reader, tableOf<ThreadRow>(), {}, {}, [&](const Row& row) {
    if (row.slot(threads::rank) != rank || !row.text(threads::name).data()) return Status();
    Status described;
    int64_t number = trackPid(row.text(threads::node), rank, row.slot(threads::pid), described);
    TS_TRY(described);
    return metadata("thread_name", number, row.slot(threads::tid),
                    [&](JsonWriter& json) { json.field("name", row.text(threads::name)); });
  });
}

}  // namespace tracesmith::trace
