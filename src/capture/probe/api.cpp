// tracesmith.h's functions, and NVTX.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "capture/probe/graph_nodes.hpp"
#include "capture/probe/probe.hpp"
#include "capture/probe/watch.hpp"
#include "model/hook_names.hpp"
#include "model/ring/program_records.hpp"
#include "tracesmith/tracesmith.h"

using namespace tracesmith;
using namespace tracesmith::probe;
using tracesmith::ring::Name;

namespace {

struct OpenStep {
  std::atomic<int64_t> step{-1};
  std::atomic<uint64_t> start{0};
  std::atomic<int64_t> range{0};    // thread << 8 | depth of the NVTX range that is the step; 0: no range is
  std::atomic<bool> marked{false};  // the program marks its steps itself
};
OpenStep g_step;  // one loop marks steps at a time; a second one would only spoil its own steps

void rangeBegin(const char* name) {
  if (RingWriter* r = ringOrNull()) pushRange(*r, r->name(name), 0);
}
void rangeEnd() {
  if (RingWriter* r = ringOrNull()) popRange(*r, 0);
}
void endStep(uint64_t end) {
  const uint64_t start = g_step.start.exchange(0);
  RingWriter* r = ringOrNull();
  if (!r || start == 0 || end < start || !recording(*r)) return;
  watchStepEnd(*r, end - start);
  r->write(encode(ring::StepRecord{.step = g_step.step.load(), .start = start, .end = end}));
}
void stepEnd() { endStep(ring::nowNs()); }
void beginStep(int64_t step, uint64_t now) {
  endStep(now);  // a step that was left open ends where the next one begins
  RingWriter* r = ringOrNull();
  g_step.step = step;
  g_step.start = now;
  if (!r || !recording(*r)) return;
  watchStepBegin(*r, step);
  r->write(encode(ring::StepRecord{.step = step, .start = now}));
}
void stepBegin(int64_t step) {
  if (!g_step.marked.exchange(true)) g_step.start = 0;  // a step that was only found is none
  beginStep(step, ring::nowNs());
}
int foundStep(int64_t step, uint64_t start_ns) {
  if (g_step.marked.load(std::memory_order_relaxed)) return 0;
  if (step >= 0)
    beginStep(step, start_ns);
  else if (const uint64_t start = g_step.start.exchange(0))
    if (RingWriter* r = ringOrNull(); r && recording(*r))  // no length: it was none
      r->write(encode(ring::StepRecord{.step = g_step.step.load(), .start = start, .end = start}));
  return 1;
}

/// Frameworks call their steps "ProfilerStep#12", "step 12", "iteration_12", …: the number, or -1.
int64_t stepNumber(const char* name) {
  if (!name || (*name != 'P' && (*name | 32) != 's' && (*name | 32) != 'i')) return -1;
  static const char* const kWords[] = {"ProfilerStep", "step", "iteration", "iter"};
  for (const char* word : kWords) {
    const char* s = name;
    for (; *word && (*s | 32) == (*word | 32); ++word) ++s;
    if (*word || (*s != '#' && *s != ' ' && *s != '_' && *s != ':' && *s != '=')) continue;
    while (*s == '#' || *s == ' ' || *s == '_' || *s == ':' || *s == '=') ++s;
    int64_t number = 0;
    const char* digits = s;
    for (; *s >= '0' && *s <= '9' && s - digits < 18; ++s) number = number * 10 + (*s - '0');
    if (s > digits && !*s) return number;
  }
  return -1;
}
void counter(const char* name, double value) {
  RingWriter* r = ringOrNull();
  if (!r || !recording(*r)) return;
  r->write(encode(ring::CounterRecord{.name = r->intern(name), .start = ring::nowNs(), .value = value}));
}
void counterAt(const char* name, const char* series, double value, uint64_t at_ns, int64_t step) {
  RingWriter* r = ringOrNull();
  if (!r || !name || !recording(*r)) return;
  r->write(encode(ring::CounterRecord{.name = r->intern(name),
                                      .start = at_ns ? at_ns : ring::nowNs(),
                                      .value = value,
                                      .series = series ? r->intern(series) : 0,
                                      .step = step < 0 ? -1 : step}));
}
void metadata(const char* key, const char* value) {
  RingWriter* r = ringOrNull();
  if (!r) return;
  const uint32_t text = r->intern(value);
  ring::RingHeader& h = r->header();
  const std::pair<const char*, std::atomic<uint32_t>*> said[] = {
      {model::kRole, &h.role}, {model::kJob, &h.job}, {model::kTorchVersion, &h.torch}};
  for (const auto& [name, field] : said)
    if (key && strcmp(key, name) == 0) field->store(text, std::memory_order_release);
  // What the libraries themselves told (versions.hpp) stays.
  const std::pair<const char*, std::atomic<uint32_t>*> known[] = {{model::kCudaVersion, &h.cuda},
                                                                  {model::kNcclVersion, &h.nccl}};
  for (const auto& [name, field] : known)
    if (uint32_t none = 0; key && strcmp(key, name) == 0) field->compare_exchange_strong(none, text);
  r->write(encode(ring::MetadataRecord{.key = r->intern(key), .value = text, .start = ring::nowNs()}));
}

void rangeAt(const char* name, uint64_t start_ns, uint64_t end_ns) {
  RingWriter* r = ringOrNull();
  if (!r || !recording(*r) || end_ns < start_ns) return;
  r->write(encode(ring::RangeRecord{
      .name = r->name(name), .start = start_ns, .end = end_ns, .thread = static_cast<uint32_t>(ring::threadId())}));
}
void hostOperation(const tracesmith_operation* o, uint64_t start_ns, uint64_t end_ns) {
  RingWriter* r = ringOrNull();
  if (!r || !o || !recording(*r)) return;
  auto text = [&](const char* s) { return s ? r->intern(s) : 0; };
  auto count = [](int64_t v) { return v < 0 ? ring::kUnknown : static_cast<uint64_t>(v); };
  r->write(encode(ring::HostOperationRecord{.op = text(o->op),
                                            .group = text(o->group),
                                            .backend = text(o->backend),
                                            .dtype = text(o->dtype),
                                            .start = start_ns,
                                            .end = end_ns,
                                            .sequence = count(o->sequence),
                                            .bytes = count(o->bytes),
                                            .rank = o->rank < 0 ? -1 : o->rank,
                                            .ranks = o->ranks < 0 ? 0 : static_cast<uint32_t>(o->ranks),
                                            .peer = o->peer}));
}
void processGroup(const char* name, const char* description, const char* backend, int32_t size, const char* ranks) {
  RingWriter* r = ringOrNull();
  if (!r || !name) return;
  auto text = [&](const char* s) { return s ? r->intern(s) : 0; };
  r->write(encode(ring::ProcessGroupRecord{.name = text(name),
                                           .description = text(description),
                                           .backend = text(backend),
                                           .ranks = text(ranks),
                                           .start = ring::nowNs(),
                                           .size = size < 0 ? 0 : static_cast<uint32_t>(size)}));
}
void setRank(int32_t rank, int32_t world_size, int32_t local_rank) {
  RingWriter* r = ringOrNull();
  if (!r) return;
  ring::RingHeader& h = r->header();
  if (rank >= 0) h.rank = rank;
  if (world_size > 0) h.world_size = world_size;
  if (local_rank >= 0) h.local_rank = local_rank;
}

int graphCapture(int begins) {
  RingWriter* r = ringOrNull();
  if (!r) return 0;
  if (begins) return captureBegins(*r);
  captureEnded();
  return 1;
}
void graphNames(const char* modules, int backward, const char* op, const char* shapes) {
  if (RingWriter* r = ringOrNull()) nameNodes(*r, modules, backward != 0, op, shapes);
}

// ---- NVTX: each library with a copy of NVTX asks once for its functions to be filled in.

struct NvtxAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;  // 1 ASCII, 2 wide, 3 registered
  const void* message;
};
static_assert(offsetof(NvtxAttributes, message) == 40);

// Handles are string ids: registered strings and domains need no memory of their own.
void* asHandle(uint32_t id) { return reinterpret_cast<void*>(static_cast<uintptr_t>(id)); }
uint32_t asId(const void* handle) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle)); }

const char* asciiOf(const NvtxAttributes* a) {
  return a && a->message && a->message_type == 1 ? static_cast<const char*>(a->message) : nullptr;
}

Name messageOf(RingWriter& r, const NvtxAttributes* a) {
  if (!a || !a->message) return {};
  if (a->message_type == 1) return r.name(static_cast<const char*>(a->message));
  if (a->message_type == 3) return {asId(a->message)};
  return {r.intern("(wide text)")};
}

bool nvtxOn(RingWriter& r) { return mode(r) != Mode::light; }

void markNamed(RingWriter& r, const Name& name, uint32_t domain) {
  if (!recording(r)) return;
  r.write(encode(ring::RangeRecord{.mark = true,
                                   .name = name,
                                   .start = ring::nowNs(),
                                   .domain = domain,
                                   .thread = static_cast<uint32_t>(ring::threadId())}));
}

// Ranges that start on one thread and may end on another: a table of open ones.
struct OpenRange {
  std::atomic<uint64_t> id;
  uint64_t start;
  Name name;
  uint32_t domain;
};
OpenRange g_ranges[4096];
std::atomic<uint64_t> g_next_range{1};

uint64_t startRange(RingWriter&, const Name& name, uint32_t domain) {
  const uint64_t id = g_next_range.fetch_add(1);
  OpenRange& slot = g_ranges[id % 4096];
  slot.id.store(0, std::memory_order_relaxed);
  slot.start = ring::nowNs();
  slot.name = name;
  slot.domain = domain;
  slot.id.store(id, std::memory_order_release);
  return id;
}

void endRange(RingWriter& r, uint64_t id) {
  OpenRange& slot = g_ranges[id % 4096];
  const ring::RangeRecord range{.nested = false,
                                .name = slot.name,
                                .start = slot.start,
                                .end = ring::nowNs(),
                                .domain = slot.domain,
                                .thread = static_cast<uint32_t>(ring::threadId())};
  // Ends a range once. A range that was not recorded has the handle 0.
  if (id == 0 || !slot.id.compare_exchange_strong(id, 0, std::memory_order_acq_rel) || !recording(r)) return;
  r.write(encode(range));
}

RingWriter* nvtxRing() {
  RingWriter* r = ringOrNull();
  return r && nvtxOn(*r) ? r : nullptr;
}

void markEx(const NvtxAttributes* a) {
  if (RingWriter* r = nvtxRing()) markNamed(*r, messageOf(*r, a), 0);
}
void markA(const char* s) {
  if (RingWriter* r = nvtxRing()) markNamed(*r, r->name(s), 0);
}
uint64_t rangeStartEx(const NvtxAttributes* a) {
  RingWriter* r = nvtxRing();
  return r ? startRange(*r, messageOf(*r, a), 0) : 0;
}
uint64_t rangeStartA(const char* s) {
  RingWriter* r = nvtxRing();
  return r ? startRange(*r, r->name(s), 0) : 0;
}
void nvtxRangeEnd(uint64_t id) {
  if (RingWriter* r = nvtxRing()) endRange(*r, id);
}
/// A range whose name looks like a step's is a step.
void pushNamed(RingWriter& r, const Name& id, const char* name) {
  const int64_t step = stepNumber(name);
  if (step >= 0) stepBegin(step);
  const int depth = pushRange(r, id, 0);
  if (step >= 0 && depth > 0 && depth < 256) g_step.range = ring::threadId() << 8 | depth;
}
int rangePushEx(const NvtxAttributes* a) {
  RingWriter* r = nvtxRing();
  if (!r) return 0;
  pushNamed(*r, messageOf(*r, a), asciiOf(a));
  return 0;
}
int rangePushA(const char* s) {
  RingWriter* r = nvtxRing();
  if (!r) return 0;
  pushNamed(*r, r->name(s), s);
  return 0;
}
int rangePop() {
  RingWriter* r = nvtxRing();
  if (!r) return -1;
  const int depth = popRange(*r, 0);
  int64_t step = ring::threadId() << 8 | (depth + 1);
  if (depth >= 0 && g_step.range.load(std::memory_order_relaxed) == step &&
      g_step.range.compare_exchange_strong(step, 0))
    stepEnd();
  return depth;
}
void domainMarkEx(void* d, const NvtxAttributes* a) {
  if (RingWriter* r = nvtxRing()) markNamed(*r, messageOf(*r, a), asId(d));
}
uint64_t domainRangeStartEx(void* d, const NvtxAttributes* a) {
  RingWriter* r = nvtxRing();
  return r ? startRange(*r, messageOf(*r, a), asId(d)) : 0;
}
void domainRangeEnd(void*, uint64_t id) { nvtxRangeEnd(id); }
int domainRangePushEx(void* d, const NvtxAttributes* a) {
  RingWriter* r = nvtxRing();
  if (r) pushRange(*r, messageOf(*r, a), asId(d));
  return 0;
}
int domainRangePop(void* d) {
  RingWriter* r = nvtxRing();
  return r ? popRange(*r, asId(d)) : -1;
}
void* domainRegisterStringA(void*, const char* s) {
  RingWriter* r = ringOrNull();
  return r ? asHandle(r->intern(s)) : nullptr;
}
void* domainCreateA(const char* s) {
  RingWriter* r = ringOrNull();
  return r ? asHandle(r->intern(s)) : nullptr;
}
void mark(const char* name) {
  if (RingWriter* r = ringOrNull()) markNamed(*r, r->name(name), 0);
}

struct NvtxCallbacks {
  size_t size;
  int (*GetModuleFunctionTable)(uint32_t module, void**** table, uint32_t* size);
};

}  // namespace

TS_EXPORT const tracesmith_api* tracesmith_probe_api(void) {
  static const tracesmith_api kApi = {1,
                                      sizeof(tracesmith_api),
                                      rangeBegin,
                                      rangeEnd,
                                      stepBegin,
                                      stepEnd,
                                      counter,
                                      metadata,
                                      rangeAt,
                                      mark,
                                      foundStep,
                                      hostOperation,
                                      processGroup,
                                      setRank,
                                      counterAt,
                                      graphCapture,
                                      graphNames};
  return ringOrNull() ? &kApi : nullptr;
}

/// The same, but starts recording also in a forked process, which stays out until then.
TS_EXPORT const tracesmith_api* tracesmith_probe_start(void) { return startRing() ? tracesmith_probe_api() : nullptr; }

/// Called by NVTX for the library NVTX_INJECTION64_PATH names; possibly several times. 1 means success.
TS_EXPORT int InitializeInjectionNvtx2(const void* (*get_export_table)(uint32_t)) {
  if (!get_export_table) return 0;
  const auto* callbacks = static_cast<const NvtxCallbacks*>(get_export_table(1));
  if (!callbacks || !callbacks->GetModuleFunctionTable) return 0;
  auto fill = [&](uint32_t module, uint32_t id, void* function) {
    void*** table = nullptr;
    uint32_t size = 0;
    if (callbacks->GetModuleFunctionTable(module, &table, &size) && table && id < size && table[id])
      *table[id] = function;
  };
  auto p = [](auto f) { return reinterpret_cast<void*>(f); };
  fill(1, 1, p(markEx));
  fill(1, 2, p(markA));
  fill(1, 4, p(rangeStartEx));
  fill(1, 5, p(rangeStartA));
  fill(1, 7, p(nvtxRangeEnd));
  fill(1, 8, p(rangePushEx));
  fill(1, 9, p(rangePushA));
  fill(1, 11, p(rangePop));
  fill(5, 1, p(domainMarkEx));
  fill(5, 2, p(domainRangeStartEx));
  fill(5, 3, p(domainRangeEnd));
  fill(5, 4, p(domainRangePushEx));
  fill(5, 5, p(domainRangePop));
  fill(5, 10, p(domainRegisterStringA));
  fill(5, 12, p(domainCreateA));
  return 1;
}
