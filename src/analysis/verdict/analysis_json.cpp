#include <cmath>
#include <type_traits>

#include "base/text.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

using trace::kNull;

/// A JsonWriter that writes NULL for what was not measured, and µs to the ns.
class Json {
 public:
  explicit Json(std::string& out) : w_(out) {}
  JsonWriter& writer() { return w_; }
  Json& id(std::string_view key, int64_t v) {
    w_.key(key);
    v == kNull ? w_.null() : w_.value(v);
    return *this;
  }
  Json& real(std::string_view key, double v) {
    w_.key(key);
    std::isfinite(v) ? w_.value(std::round(v * 1000) / 1000) : w_.null();
    return *this;
  }
  Json& exact(std::string_view key, double v) {
    w_.key(key);
    std::isfinite(v) ? w_.value(v) : w_.null();
    return *this;
  }
  template <typename T>
  Json& field(std::string_view key, const T& v) {
    w_.field(key, v);
    return *this;
  }
  Json& text(std::string_view key, const std::string& v) {
    w_.key(key);
    v.empty() ? w_.null() : w_.value(v);
    return *this;
  }
  template <typename List, typename Each>
  void array(std::string_view key, const List& list, Each each) {
    w_.key(key).beginArray();
    for (const auto& item : list) {
      w_.beginObject();
      each(item);
      w_.endObject();
    }
    w_.endArray();
  }

 private:
  JsonWriter w_;
};

void writeHta(Json& j, const Hta& h) {
  j.writer().key("hta").beginObject();
  j.array("temporal", h.temporal, [&](const HtaTemporal& t) {
    j.id("rank", t.rank).field("idle_us", t.idle_us).field("compute_us", t.compute_us);
    j.field("non_compute_us", t.non_compute_us).field("kernel_time_us", t.kernel_time_us);
  });
  j.array("overlap", h.overlap, [&](const HtaOverlap& o) {
    j.id("rank", o.rank).field("overlap_us", o.overlap_us).field("comm_us", o.comm_us);
    const double pct = 100 * static_cast<double>(o.overlap_us) / static_cast<double>(o.comm_us);
    j.exact("pct", o.comm_us > 0 ? std::round(pct * 100) / 100 : kUnknown);
  });
  j.writer().key("kernel_types").beginObject();
  for (const auto& [label, us] : h.kernel_types) j.field(label, us);
  j.writer().endObject();
  j.array("kernels", h.kernels, [&](const HtaKernel& k) {
    j.id("rank", k.rank).field("type", k.type).field("name", k.name).real("sum_us", k.sum_us).real("max_us", k.max_us);
    j.real("min_us", k.min_us).real("mean_us", k.mean_us).real("std_us", k.std_us);
  });
  j.array("idle", h.idle, [&](const HtaIdle& i) {
    j.id("rank", i.rank).field("stream", i.stream).field("host_wait_us", i.host_wait_us);
    j.field("kernel_wait_us", i.kernel_wait_us).field("other_us", i.other_us);
  });
  j.array("queue", h.queue, [&](const HtaQueue& q) {
    j.id("rank", q.rank).field("stream", q.stream).field("count", q.count).exact("mean", q.mean).exact("std", q.std);
    j.field("max", q.max);
  });
  j.array("launch", h.launch, [&](const HtaLaunch& l) {
    j.id("rank", l.rank).field("count", l.count).real("cpu_us_mean", l.cpu_us_mean).real("gpu_us_mean", l.gpu_us_mean);
    j.real("delay_us_mean", l.delay_us_mean).field("delay_us_max", l.delay_us_max);
    j.field("short_kernels", l.short_kernels).field("runtime_outliers", l.runtime_outliers);
    j.field("delay_outliers", l.delay_outliers);
  });
  j.array("stragglers", h.stragglers, [&](const HtaStraggler& s) { j.id("rank", s.rank).field("flags", s.flags); });
  j.writer().endObject();
}

const char* kindName(VerdictKind kind) {
  static constexpr const char* kNames[] = {"none", "rank", "link", "unknown"};
  return kNames[static_cast<int>(kind)];
}

template <typename Kind>
void write(JsonWriter& w, const typename Kind::type& value) {
  using namespace kind;
  if constexpr (std::is_same_v<Kind, Note>)
    value.empty() ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<Kind, Id>)
    value == kNull ? w.null() : w.value(value);
  else if constexpr (std::is_same_v<typename Kind::type, double>)  // µs to the ns
    std::isfinite(value) ? w.value(std::round(value * 1000) / 1000) : w.null();
  else if constexpr (std::is_same_v<Kind, Why>)
    w.value(nameOf(value));
  else if constexpr (std::is_same_v<Kind, MaybeWhy>)
    value ? w.value(nameOf(*value)) : w.null();
  else if constexpr (std::is_same_v<Kind, About>)
    w.value(kindName(value));
  else if constexpr (std::is_same_v<Kind, Notes> || std::is_same_v<Kind, Ids>) {
    w.beginArray();
    for (const auto& item : value) write<std::conditional_t<std::is_same_v<Kind, Ids>, Id, Text>>(w, item);
    w.endArray();
  } else {
    w.value(value);
  }
}

#define STRUCT(Name, doc) void writeFields(JsonWriter& w, const Name& s) {
#define FIELD(Struct, Kind, name, doc) write<kind::Kind>(w.key(#name), s.name);
#define END_STRUCT(Name) }
#include "tracesmith/model/verdict.def"

void writeCriticalPath(Json& j, const std::optional<CriticalPath>& p) {
  j.writer().key("critical_path");
  if (!p) {
    j.writer().null();
    return;
  }
  j.writer().beginObject();
  j.real("total_us", p->total_us).real("work_us", p->work_us).real("transfer_us", p->transfer_us);
  j.real("other_us", p->other_us).real("replay_error_pct", p->replay_error_pct);
  j.array("ranks", p->ranks, [&](const CriticalPath::Share& s) { j.id("rank", s.rank).real("us", s.us); });
  j.array("groups", p->groups, [&](const CriticalPath::Share& s) { j.field("group", s.of).real("us", s.us); });
  j.array("what_if", p->what_if, [&](const WhatIf& w) {
    j.field("if", w.what).real("job_us", w.job_us).real("saved_us", w.saved_us).real("saved_pct", w.saved_pct);
    j.real("step_us", w.step_us);
  });
  j.writer().endObject();
}

}  // namespace

std::string toJson(const Analysis& a, const std::string& file) {
  std::string out;
  Json j(out);
  j.writer().beginObject();
  j.field("file", file)
      .field("simulated", a.simulated)
      .field("events", a.events)
      .field("ranks", a.ranks)
      .field("nodes", a.nodes);
  j.id("world_size", a.world_size > 0 ? a.world_size : kNull).real("duration_us", a.duration_us);
  j.real("job_us", a.job_us).real("startup_us", a.startup_us).real("step_us", a.step_us).field("steps_by", a.steps_by);
  j.writer().key("verdict").beginObject();
  writeFields(j.writer(), a.verdict);
  j.writer().endObject();
  auto texts = [&](const char* key, const std::vector<std::string>& list) {
    j.writer().key(key).beginArray();
    for (const std::string& s : list) j.writer().value(s);
    j.writer().endArray();
  };
  texts("unknowns", a.unknowns);
  texts("notes", a.notes);
  writeHta(j, a.hta);
  auto fields = [&](const auto& s) { writeFields(j.writer(), s); };
  j.array("steps", a.steps, fields);
  j.array("breakdown", a.breakdown, fields);
  j.array("kernels", a.kernels, fields);
  j.array("collectives", a.collectives, fields);
  j.array("blame", a.blame, fields);
  j.array("links", a.links, fields);
  j.writer().key("matrix").beginObject();
  j.text("pattern", a.pattern).text("note", a.matrix_note);
  j.array("cells", a.matrix, [&](const MatrixCell& c) {
    j.field("from", c.from).field("to", c.to).field("bytes", c.bytes).field("count", c.count);
    j.real("latency_us", c.latency_us);
  });
  j.writer().endObject();
  writeCriticalPath(j, a.critical_path);
  j.array("clock", a.clocks, [&](const ClockResult& c) {
    j.field("node", c.node).field("offset_ns", c.offset_ns).exact("drift_ppm", c.drift_ppm).id("bound_ns", c.bound_ns);
    j.text("method", c.method);
  });
  j.array("losses", a.losses, [&](const LossResult& l) {
    j.field("cause", l.cause).field("count", l.count).id("rank", l.rank).text("detail", l.detail);
  });
  j.writer().key("not_counted").beginObject();
  j.field("incomplete", a.incomplete).field("inconsistent", a.inconsistent).field("unmatched", a.unmatched);
  j.writer().endObject().endObject();
  return out;
}

}  // namespace tracesmith::analysis
