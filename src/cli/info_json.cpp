// The summary of a trace as JSON. Keys are stable: see the help of `tracesmith info`.
#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "cli/info_summary.hpp"

namespace tracesmith::cli {

using trace::kNull;

void printSummaryJson(const trace::Reader& reader, const Summary& s) {
  std::string out;
  JsonWriter w(out);
  auto optional = [&](const char* key, const auto& v) { v ? w.field(key, *v) : w.key(key).null(); };
  auto nullable = [&](const char* key, int64_t v) { v != kNull ? w.field(key, v) : w.key(key).null(); };
  w.beginObject().field("file", reader.path()).field("bytes", reader.fileSize()).field("closed", reader.closed());
  w.field("unfinished_bytes", reader.unfinishedBytes())
      .field("trace_id", reader.traceId())
      .field("created_ns", reader.createdNs());
  optional("start_ns", s.start_ns);
  optional("end_ns", s.end_ns);
  optional("recorded_ns", s.recorded_ns);
  w.field("simulated", s.simulated).key("sources").beginArray();
  for (const std::string& source : s.sources) w.value(source);
  w.endArray().key("tables").beginArray();
  for (const Summary::Table& t : s.tables) {
    w.beginObject().field("name", t.info->name).field("rows", t.rows).field("bytes", t.bytes).field("blocks", t.blocks);
    w.key("columns").beginArray();
    for (const Summary::Column& c : t.columns)
      if (c.values > 0)
        w.beginObject().field("name", c.name).field("values", c.values).field("bytes", c.bytes).endObject();
    w.endArray().endObject();
  }
  w.endArray().field("other_bytes", s.other_bytes).field("host_rows", s.host_rows).field("device_rows", s.device_rows);
  w.key("events_by_type");
  if (s.by_type) {
    w.beginObject();
    for (int t = 0; t < trace::kEventTypes; ++t)
      if (uint64_t n = (*s.by_type)[static_cast<size_t>(t)])
        w.field(trace::eventTypeName(static_cast<trace::EventType>(t)), n);
    w.endObject();
  } else {
    w.null();
  }
  w.key("ranks").beginArray();
  for (int64_t r : s.ranks)
    if (r != kNull) w.value(r);
  w.endArray().key("nodes").beginArray();
  for (const std::string& n : s.nodes) w.value(n);
  w.endArray().key("devices").beginArray();
  for (const Summary::Device& d : s.devices) {
    w.beginObject().field("node", d.node);
    nullable("device", d.device);
    w.field("name", d.name).endObject();
  }
  w.endArray();
  optional("first_step", s.first_step);
  optional("last_step", s.last_step);
  w.key("job");
  if (s.job) {
    auto real = [&](const char* key, double us) {
      w.key(key);
      std::isfinite(us) ? w.value(us) : w.null();
    };
    w.beginObject().field("steps_by", s.job->steps_by).key("steps");
    s.job->steps ? w.value(*s.job->steps) : w.null();
    real("job_us", s.job->job_us);
    real("startup_us", s.job->startup_us);
    real("step_us", s.job->step_us);
    w.endObject();
  } else {
    w.null();
  }
  w.key("out_of_memory").beginArray();
  for (const analysis::OutOfMemory& o : s.out_of_memory) {
    w.beginObject();
    optional("rank", o.rank);
    optional("pid", o.pid);
    optional("step", o.step);
    w.key("line");
    o.line.empty() ? w.null() : w.value(o.line);
    optional("allocated", o.allocated);
    optional("total", o.total);
    optional("wanted", o.wanted);
    w.key("held").beginArray();
    for (const analysis::OutOfMemory::Held& h : o.held)
      w.beginObject().field("line", h.line).field("bytes", h.bytes).field("blocks", h.blocks).endObject();
    w.endArray().endObject();
  }
  w.endArray().key("collectives");
  if (s.collectives) {
    w.beginArray();
    for (const Summary::Collective& c : *s.collectives)
      w.beginObject()
          .field("op", c.op)
          .field("comm", c.comm)
          .field("count", c.count)
          .field("bytes", c.bytes)
          .endObject();
    w.endArray();
  } else {
    w.null();
  }
  w.key("clocks").beginArray();
  for (const Summary::Clock& c : s.clocks) {
    w.beginObject().field("node", c.node);
    nullable("offset_ns", c.offset_ns);
    optional("drift_ppm", c.drift_ppm);
    nullable("bound_ns", c.bound_ns);
    w.field("method", c.method).field("reference", c.reference).field("rows", c.rows).endObject();
  }
  w.endArray().key("watch");
  s.watched ? w.raw(capture::jsonOf(*s.watched)) : w.null();
  w.key("collectors").beginArray();
  for (const Summary::Collector& c : s.collectors) {
    w.beginObject().field("node", c.node).field("collector", c.name).field("cpu_s", c.cpu_s).field("wall_s", c.wall_s);
    w.field("elapsed_s", c.elapsed_s).field("readings", c.readings).field("samples", c.samples).endObject();
  }
  w.endArray().key("losses").beginArray();
  for (const Summary::Loss& l : s.losses)
    w.beginObject()
        .field("cause", l.cause)
        .field("count", l.count)
        .field("rows", l.rows)
        .field("detail", l.detail)
        .endObject();
  w.endArray().key("damage").beginArray();
  for (const trace::Damage& d : reader.damage())
    w.beginObject().field("offset", d.offset).field("bytes", d.bytes).field("what", d.what).endObject();
  w.endArray()
      .field("verified", s.verified)
      .field("unknown_blocks", reader.unknownBlocks())
      .key("unknown_columns")
      .beginArray();
  for (const std::string& c : reader.unknownColumns()) w.value(c);
  w.endArray().endObject();
  std::printf("%s\n", out.c_str());
}

}  // namespace tracesmith::cli
