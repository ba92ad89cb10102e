#include "trace/import/chrome_import.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "trace/category.hpp"

namespace tracesmith::trace {
namespace {

constexpr size_t kMostSteps = 1u << 20;

/// N of "ProfilerStep#N", or kNull.
int64_t stepOf(EventType type, std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  int64_t step;
  // Older profilers gave operators and annotations one category.
  if ((type != EventType::annotation && type != EventType::cpu_op) || !name.starts_with(kPrefix)) return kNull;
  return parseInt(name.substr(kPrefix.size()), step) ? step : kNull;
}

/// True if args say on which device or stream it ran: numbers, and not the −1 of "unknown".
bool namesDevice(const ChromeEvent& e) {
  for (const char* key : {"stream", "device"}) {
    int64_t number;
    if (const JsonMember* m = e.findArg(key); m && parseToken(m->value, number) && number >= 0) return true;
  }
  return false;
}

/// What torch's profiler writes without Kineto has no categories. Operators are called "aten::mm", "MulBackward0"; what
/// a program marked itself ("DistributedDataParallel.forward", "ProfilerStep#3") has neither.
EventType typeOfFunction(std::string_view name) {
  const bool op = name.find("::") != name.npos || name.find("Backward") != name.npos;
  return op ? EventType::cpu_op : EventType::annotation;
}

/// Kineto tells waits by their stream; `tracesmith export` also those of a thread, which have none.
bool onDevice(const ChromeEvent& e, EventType type) {
  return isDeviceType(type) || (type == EventType::sync && (e.findArg("stream") || e.findArg("device")));
}

}  // namespace

ChromeImport::ChromeImport(Writer& writer, RowSink::Options sink, ImportShared& shared, int64_t rank, std::string node)
    : writer_(writer),
      shared_(shared),
      node_(std::move(node)),
      sink_(writer, std::move(sink)),
      metadata_(writer, sink_, losses_),
      tracks_(shared.names, losses_),
      launches_(writer) {
  facts_.rank = rank;
}

Status ChromeImport::member(std::string_view key, std::string_view value) {
  metadata_.member(key, value);
  return sink_.state();
}

Status ChromeImport::event(const ChromeEvent& e) {
  // Names wait in memory until a block is written, and blocks wait for the end.
  if (++elements_ % 65536 == 0) {
    TS_TRY(writer_.flushStrings());
    TS_TRY(sink_.state());
  }
  if (e.not_finite) losses_.add("not a number", 1, e.text);
  switch (e.ph.size() == 1 ? e.ph[0] : '\0') {
    case 'X':
      complete(e);
      break;
    case 'i':
    case 'I':
    case 'R':
      instant(e);
      break;
    case 'B':
      begin(e, false);
      break;
    case 'E':
      end(e, false);
      break;
    case 'b':
    case 'S':
      begin(e, true);
      break;
    case 'e':
    case 'F':
      end(e, true);
      break;
    case 'n':
    case 'T':
    case 'p':
      instant(e);
      break;
    case 'C':
      counter(e);
      break;
    case 's':
      flow(e, "start");
      break;
    case 't':
      flow(e, "step");
      break;
    case 'f':
      flow(e, "end");
      break;
    case 'M':
      metadata(e);
      break;
    default:
      reject(e.ph.empty() ? "no phase" : "unknown phase", e);
  }
  return {};
}

bool ChromeImport::time(const ChromeEvent& e, int64_t& ns) {
  if (e.ts.empty()) {
    reject("no ts", e);
    return false;
  }
  if (parseMicros(e.ts, ns) && !__builtin_add_overflow(ns, metadata_.baseNs(), &ns)) return true;
  reject("bad ts", e);
  return false;
}

int64_t ChromeImport::duration(const ChromeEvent& e) {
  int64_t ns;
  if (e.dur.empty() || e.dur == "null") return kNull;
  if (parseMicros(e.dur, ns) && ns >= 0) return ns;
  losses_.add("bad duration", 1, e.text);
  return kNull;
}

std::string_view ChromeImport::name(const ChromeEvent& e) {
  if (!e.name_escaped) return e.name;
  name_.clear();
  appendUnescaped(name_, e.name);
  return name_;
}

EventType ChromeImport::typeOf(const ChromeEvent& e) const {
  if (shared_.type_of)
    if (const std::optional<EventType> told = shared_.type_of(e.cat)) return *told;
  if (e.cat.empty()) return e.pid == "\"CPU functions\"" ? typeOfFunction(e.name) : EventType::other;
  const EventType type = typeOfCategory(e.cat);
  return type == EventType::other && namesDevice(e) ? typeOfDeviceCategory(e.cat) : type;
}

void ChromeImport::seeProcess(EventType type, int64_t pid) {
  if (pid <= 0) return;
  bool api = type == EventType::runtime || type == EventType::driver;
  if (!api && type != EventType::cpu_op && type != EventType::annotation) return;
  int64_t& seen = api ? api_pid_ : op_pid_;
  if (seen == kNull) seen = pid;
  if (seen != pid) (api ? api_pids_differ_ : op_pids_differ_) = true;
}

bool ChromeImport::start(const ChromeEvent& e, EventType type, EventRow& row) {
  if (!time(e, row.ts)) return false;
  row.type = static_cast<int64_t>(type);
  row.name = writer_.string(name(e));
  int64_t pid = tracks_.process(e.pid), tid = tracks_.thread(pid, e.tid);
  if (onDevice(e, type)) return true;  // args() says where
  row.pid = pid;
  row.tid = tid;
  tracks_.own(row);
  seeProcess(type, row.pid);
  return true;
}

void ChromeImport::args(const ChromeEvent& e, EventType type, EventRow& row, LaunchShape& shape, ArgsText& text) {
  bool on_device = onDevice(e, type);
  takeArgs(e, on_device, row, shape, text);
  row.launch = launches_.of(shape);
  if (on_device) {
    int64_t pid = tracks_.process(e.pid);
    if (row.device == kNull && pid == static_cast<int32_t>(pid)) row.device = pid;
    if (row.stream == kNull) row.stream = tracks_.thread(pid, e.tid);
    if (const Tracks::Owner* who = tracks_.ownerOf(pid)) {
      row.rank = who->rank;
      row.node = who->node;
      row.pid = who->pid;
      if (who->device != kNull) row.device = who->device;
    } else if (type == EventType::sync && api_pid_ != kNull && !api_pids_differ_)
      row.pid = api_pid_;
  }
  for (const JsonMember& m : e.others) {
    int64_t id;
    if (m.key == "bind_id" && parseToken(m.value, id))
      row.flow = id;
    else
      text.member(m);
  }
  if (!e.cat.empty() && e.cat != categoryOf(type))
    text.field(e.findArg("cat") ? "event cat" : "cat", "\"" + std::string(e.cat) + "\"");
}

void ChromeImport::add(EventRow& row, int64_t step) {
  sink_.add(row);
  ++events_;
  if (first_ns_ == kNull || row.ts < first_ns_) first_ns_ = row.ts;
  int64_t end;
  if (row.dur == kNull || __builtin_add_overflow(row.ts, row.dur, &end)) end = row.ts;
  last_ns_ = std::max(last_ns_, end);
  if (step == kNull) return;
  StepRow s;
  s.rank = row.rank;
  s.node = row.node;
  s.ts = row.ts;
  s.dur = row.dur;
  s.pid = row.pid;
  s.step = step;
  s.name = row.name;
  sink_.add(s);
  if (step_numbers_.size() < kMostSteps) step_numbers_.insert(step);
  if (row.dur != kNull) steps_[row.rank].add(row.ts, row.dur, step);
}

int64_t ChromeImport::finishedArgs(const ChromeEvent& e, size_t begin) {
  if (e.not_finite) {
    std::string clean = withoutNonFinite(std::string_view(sink_.texts()).substr(begin));
    sink_.texts().resize(begin);
    sink_.texts() += clean;
  }
  return sink_.textFrom(begin);
}

void ChromeImport::complete(const ChromeEvent& e) {
  const EventType type = typeOf(e);
  EventRow row;
  LaunchShape shape;
  if (!start(e, type, row)) return;
  row.dur = duration(e);
  size_t begin = sink_.texts().size();
  ArgsText text(sink_.texts());
  args(e, type, row, shape, text);
  if (!e.id.empty()) text.field("id", e.id);
  if (text.finish()) row.args = finishedArgs(e, begin);
  add(row, stepOf(type, e.name));
  if (shared_.collective_of) addCollective(e, type, row, shape);
}

void ChromeImport::addCollective(const ChromeEvent& e, EventType type, const EventRow& row, const LaunchShape& shape) {
  constexpr size_t kMostNumbers = 1u << 20;
  const bool on_device = type == EventType::kernel;
  if (!on_device && type != EventType::cpu_op && type != EventType::annotation) return;
  int64_t seq = kNull;
  const JsonMember* told = e.findArg("Seq");
  if (told && !parseToken(told->value, seq)) seq = kNull;
  // Kineto may tell the number only at the call that launched the kernel; calls stand before kernels in its files.
  if (!on_device && seq != kNull && row.external_id != kNull && numbers_.size() < kMostNumbers)
    numbers_[{row.rank, row.external_id}] = seq;
  if (on_device && seq == kNull && row.external_id != kNull)
    if (auto it = numbers_.find({row.rank, row.external_id}); it != numbers_.end()) seq = it->second;
  const int64_t rank = row.rank != kNull ? row.rank : facts_.rank != kNull ? facts_.rank : metadata_.rank();
  std::optional<CollectiveRow> part = shared_.collective_of({e, name(e), row, shape, on_device, rank, seq, writer_});
  if (!part) return;
  if (row.rank != kNull) {
    part->rank = row.rank;
    part->node = row.node;
    part->pid = row.pid;
  }
  sink_.add(*part);
  ++collectives_;
}

bool ChromeImport::readSpan(const ChromeEvent& e, EventType type, OpenSpan& span) {
  LaunchShape shape;
  if (!start(e, type, span.row)) return false;
  std::string buffer;
  ArgsText text(buffer);
  args(e, type, span.row, shape, text);
  if (!e.id.empty()) text.field("id", e.id);
  span.members = text.takeMembers();
  return true;
}

void ChromeImport::instant(const ChromeEvent& e) {
  bool async = e.ph == "n" || e.ph == "T" || e.ph == "p";
  const EventType type = async ? EventType::other : EventType::marker;
  OpenSpan span;
  if (!readSpan(e, type, span)) return;
  addSpan(span);
}

std::string ChromeImport::asyncKey(const ChromeEvent& e) const {
  std::string key(e.cat);
  key += '\n';
  key += e.id;
  if (const JsonMember* m = e.findOther("id2")) {
    key += m->value;
    if (m->value.find("\"local\"") != std::string_view::npos) key += e.pid;
  }
  if (const JsonMember* m = e.findOther("scope")) key += m->value;
  return key;
}

void ChromeImport::begin(const ChromeEvent& e, bool async) {
  const EventType type = async ? EventType::other : typeOf(e);
  OpenSpan span;
  if (!readSpan(e, type, span)) return;
  span.step = stepOf(type, e.name);
  std::string key = async ? asyncKey(e) : std::string(e.pid) + "\n" + std::string(e.tid);
  if ((async ? asyncs_ : threads_).open(key, span)) return;
  losses_.add("too many open spans", 1, e.text);
  addSpan(span);
}

void ChromeImport::end(const ChromeEvent& e, bool async) {
  OpenSpan span;
  int64_t ts, dur;
  if (!time(e, ts)) return;
  std::string key = async ? asyncKey(e) : std::string(e.pid) + "\n" + std::string(e.tid);
  if (!(async ? asyncs_ : threads_).close(key, span)) return reject("end without begin", e);
  if (__builtin_sub_overflow(ts, span.row.ts, &dur) || dur < 0)
    losses_.add("bad duration", 1, e.text);
  else
    span.row.dur = dur;
  LaunchShape shape;
  std::string buffer;
  ArgsText text(buffer);
  text.members(span.members);
  takeArgs(e, isDeviceType(static_cast<EventType>(span.row.type)), span.row, shape, text);
  if (span.row.launch == kNull) span.row.launch = launches_.of(shape);
  span.members = text.takeMembers();
  addSpan(span);
}

void ChromeImport::addSpan(OpenSpan& span) {
  if (!span.members.empty()) {
    size_t begin = sink_.texts().size();
    sink_.texts() += withoutNonFinite("{" + span.members + "}");
    span.row.args = sink_.textFrom(begin);
  }
  add(span.row, span.step);
}

std::set<int64_t> ChromeImport::ranks() const {
  std::set<int64_t> ranks;
  for (const auto& [number, who] : tracks_.owners()) ranks.insert(who.rank);
  ranks.insert(facts_.rank);
  ranks.erase(kNull);
  return ranks;
}

Status ChromeImport::finish() {
  auto unfinished = [this](OpenSpan& span) { addSpan(span); };
  threads_.drain(unfinished);
  asyncs_.drain(unfinished);
  if (facts_.rank == kNull) facts_.rank = metadata_.rank();
  if (facts_.rank == kNull && named_rank_ != kNull && tracks_.owners().empty()) {
    facts_.rank = named_rank_;
    rank_is_by_name_ = true;
  }
  facts_.world_size = metadata_.worldSize();
  facts_.epoch_ns = metadata_.epochNs();
  // The rows say what is wrong where this does not fit.
  if (first_ns_ != kNull && (__builtin_add_overflow(first_ns_, facts_.epoch_ns, &first_ns_) ||
                             __builtin_add_overflow(last_ns_, facts_.epoch_ns, &last_ns_)))
    first_ns_ = last_ns_ = kNull;
  facts_.pid = api_pids_differ_ ? kNull : api_pid_;
  if (api_pid_ == kNull && !op_pids_differ_) facts_.pid = op_pid_;
  if (node_.empty()) node_ = metadata_.host();
  std::set<std::string> nodes;
  for (const auto& [number, who] : tracks_.owners())
    if (!who.node_name.empty()) nodes.insert(who.node_name);
  if (node_.empty() && nodes.size() == 1) node_ = *nodes.begin();
  if (!node_.empty()) {
    facts_.node = writer_.string(node_);
    nodes.insert(node_);
  }
  for (const std::string& name : nodes) {
    NodeRow node;
    node.node = node.hostname = writer_.string(name);
    if (shared_.nodes.insert(name).second) sink_.add(node);
  }
  tracks_.write(writer_, sink_, facts_);
  metadata_.writeDevices(node_, shared_.devices);
  writeLosses(losses_, writer_, sink_);
  return sink_.finish(facts_, steps_);
}

}  // namespace tracesmith::trace
