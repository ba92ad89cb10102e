#include "trace/import/tracks.hpp"

#include <functional>

#include "base/text.hpp"
#include "trace/import/json_cursor.hpp"

namespace tracesmith::trace {
namespace {

constexpr size_t kMaxTracks = 200'000;  // of one input
constexpr size_t kMaxNames = 100'000;
constexpr size_t kMaxNameBytes = 4096;

/// A value as text: a string without its quotes, anything else as written.
std::string textOf(std::string_view value) {
  std::string out;
  if (value.size() >= 2 && value.front() == '"')
    appendUnescaped(out, value.substr(1, value.size() - 2));
  else
    out = value;
  return std::string(utf8Prefix(out, kMaxNameBytes));
}

}  // namespace

int64_t NameNumbers::of(std::string_view name) {
  if (auto it = numbers_.find(std::string(name)); it != numbers_.end()) return it->second;
  int64_t number = 0;
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  bool good = digits < name.size() && (digits == 0 || name[digits - 1] == ' ') && parseInt(name.substr(digits), number);
  if (good && digits > 0) {
    auto [it, fresh] = taken_.try_emplace(number, name);
    good = fresh || it->second == name;
  }
  // Beyond the limit the number is made from the name itself: still stable, but two names could meet.
  if (!good)
    number = numbers_.size() < kMaxNames
                 ? next_--
                 : -1'000'000 - static_cast<int64_t>(std::hash<std::string_view>()(name) % 1'000'000'000);
  if (numbers_.size() < kMaxNames) numbers_.emplace(name, number);
  return number;
}

Tracks::Process* Tracks::processOf(int64_t pid) {
  if (auto it = processes_.find(pid); it != processes_.end()) return &it->second;
  if (processes_.size() >= kMaxTracks) {
    losses_.add("too many processes", 1, "names of further processes were not kept");
    return nullptr;
  }
  return &processes_[pid];
}

int64_t Tracks::process(std::string_view token) {
  if (token.empty() || token == "null") return kNull;
  int64_t number;
  if (token.front() != '"') return parseToken(token, number) ? number : kNull;
  if (token == last_process_) return last_process_number_;
  std::string text = textOf(token);
  number = names_.processes.of(text);
  last_process_ = token;
  last_process_number_ = number;
  if (Process* p = processOf(number); p && !p->named) {
    p->named = true;
    if (p->name.empty()) p->name = text;
  }
  return number;
}

int64_t Tracks::thread(int64_t pid, std::string_view token) {
  if (token.empty() || token == "null") return kNull;
  int64_t number;
  if (token.front() != '"') return parseToken(token, number) ? number : kNull;
  if (token == last_thread_ && pid == last_thread_pid_) return last_thread_number_;
  std::string text = textOf(token);
  number = names_.threads.of(text);
  last_thread_ = token;
  last_thread_number_ = number;
  last_thread_pid_ = pid;
  if (!threads_.contains({pid, number})) threadName(pid, number, token);
  return number;
}

void Tracks::processName(int64_t pid, std::string_view value) {
  if (Process* p = processOf(pid)) p->name = textOf(value);
}

void Tracks::processLabels(int64_t pid, std::string_view value) {
  if (value.size() > kMaxNameBytes) return losses_.add("too large", 1, "labels of a process");
  if (Process* p = processOf(pid)) p->labels = withoutNonFinite(value);
}

void Tracks::processSortIndex(int64_t pid, std::string_view value) {
  if (value.size() > kMaxNameBytes) return losses_.add("too large", 1, "sort index of a process");
  if (Process* p = processOf(pid)) p->sort_index = withoutNonFinite(value);
}

void Tracks::threadName(int64_t pid, int64_t tid, std::string_view value) {
  if (threads_.size() >= kMaxTracks && !threads_.contains({pid, tid})) {
    losses_.add("too many threads", 1, "names of further threads were not kept");
    return;
  }
  threads_[{pid, tid}] = textOf(value);
}

void Tracks::owner(int64_t number, Owner owner) {
  if (owners_.size() < kMaxTracks || owners_.contains(number))
    owners_[number] = std::move(owner);
  else
    losses_.add("too many processes", 1, "names of further processes were not kept");
}

void Tracks::write(Writer& writer, RowSink& sink, const InputFacts& facts) const {
  auto processes = processes_;
  if (facts.pid != kNull) processes.try_emplace(facts.pid);
  for (const auto& [number, who] : owners_) {
    processes.erase(number);
    if (who.device != kNull) continue;
    ProcessRow row;
    row.rank = who.rank;
    row.node = who.node;
    row.pid = who.pid;
    row.world_size = facts.world_size;
    if (!who.name.empty()) row.name = writer.string(who.name);
    sink.add(row);
  }
  for (const auto& [pid, process] : processes) {
    std::string args;
    JsonWriter json(args);
    json.beginObject();
    bool device = process.labels.starts_with("\"GPU ");
    if (device) {
      json.field("pid", pid);
      if (!process.name.empty()) json.field("name", process.name);
    }
    if (!process.labels.empty()) json.key("labels").raw(process.labels);
    if (!process.sort_index.empty()) json.key("sort_index").raw(process.sort_index);
    json.endObject();
    if (device) {
      MetadataRow row;
      row.key = writer.string("device_process");
      row.value = sink.text(args);
      sink.add(row);
      continue;
    }
    ProcessRow row;
    row.pid = pid;
    row.world_size = facts.world_size;
    if (!process.name.empty()) row.name = writer.string(process.name);
    if (args != "{}") row.args = sink.text(args);
    sink.add(row);
  }
  for (const auto& [key, name] : threads_) {
    ThreadRow row;
    row.pid = key.first;
    row.tid = key.second;
    own(row);
    if (const Owner* who = ownerOf(key.first); who && who->device != kNull) row.pid = who->device;
    row.name = writer.string(name);
    sink.add(row);
  }
}

}  // namespace tracesmith::trace
