#include "trace/import/sbt0_import.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "trace/import/sbt0_reader.hpp"

namespace tracesmith::trace {
namespace {

using namespace sbt0;

EventType typeOf(uint8_t type) {
  switch (type) {
    case 1:
    case 2:
      return EventType::kernel;
    case 3:
    case 4:
    case 5:
      return EventType::memcpy;
    case 6:
      return EventType::memset;
    case 7:
    case 8:
    case 10:
      return EventType::sync;
    case 9:
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
    case 16:
      return EventType::runtime;
    case 17:
    case 19:
      return EventType::marker;
    case 18:
      return EventType::annotation;
    default:
      return EventType::other;
  }
}

int64_t int64Slot(uint64_t v) { return v <= INT64_MAX ? static_cast<int64_t>(v) : kNull; }
int64_t int32Slot(uint64_t v) { return v <= INT32_MAX ? static_cast<int64_t>(v) : kNull; }
std::optional<int32_t> shapeField(uint64_t v) {
  return v <= INT32_MAX ? std::optional(static_cast<int32_t>(v)) : std::nullopt;
}

class Sbt0Import {
 public:
  Sbt0Import(const File& file, uint64_t size, Writer& writer, RowSink::Options sink)
      : path_(file.path()), c_(file, size), writer_(writer), sink_(writer, std::move(sink)) {}

  Status run();
  Status finish(int64_t rank, const std::string& node, Sbt0Result& result);

 private:
  void sections();
  void events();
  void findStrings();
  bool looksLikeStrings(uint64_t offset, uint64_t names);
  void add(const Event& e);
  std::string args(const Event& e);
  void nodesAndDevices(const std::string& node);

  std::string path_;
  Cursor c_;
  Writer& writer_;
  RowSink sink_;
  Header header_;
  Metadata metadata_;
  bool has_metadata_ = false;
  std::vector<Device> devices_;
  StringList strings_;
  bool has_strings_ = false;
  uint64_t events_at_ = 0, strings_at_ = 0;  // after the tag; 0: not found
  uint64_t search_budget_ = 64u << 20;       // bytes looked at in search of the strings
  uint64_t events_ = 0;
  Losses losses_;
};

Status Sbt0Import::run() {
  if (c_.left() < Header::kSize)
    return Status::corrupt(path_ + ": an SBT v0.1 file that ends inside its header (byte " + std::to_string(c_.left()) +
                           ")");
  if (!readHeader(c_, header_)) return Status::corrupt(path_ + ": damaged SBT v0.1 header (byte 0)");
  if (header_.compression != 0)
    return Status::unsupported(path_ + ": SBT v0.1 with compression " + std::to_string(header_.compression) +
                               ", which no known version writes");
  sections();
  if (strings_at_ != 0) {
    c_.seek(strings_at_);
    has_strings_ = strings_.read(c_);
    if (has_strings_ && c_.byte() != kEndTag)
      losses_.add("end mark missing", 1, "the file ends after its names, without its end mark");
  }
  if (!has_strings_)
    losses_.add("string table missing", 1,
                "the file ends before its names: " + humanCount(strings_.size()) + " of them were read");
  if (strings_.dropped() > 0)
    losses_.add("too many strings", strings_.dropped(), "names beyond the limit were not kept");
  if (events_at_ != 0) events();
  return sink_.state();
}

/// Where everything is: from the header, or from the order of sections where a killed writer left no offsets.
void Sbt0Import::sections() {
  c_.seek(std::clamp<uint64_t>(header_.header_size, Header::kSize, 4096));
  bool finished = header_.events_off != 0 || header_.strings_off != 0 || header_.metadata_off != 0;
  if (!finished) losses_.add("not closed", 1, "the writer was killed before it wrote the offsets into the header");
  for (;;) {
    uint8_t tag = c_.byte();
    if (c_.failed() || tag == kEndTag) break;
    if (tag == kMetadataTag) {
      has_metadata_ = readMetadata(c_, metadata_);
    } else if (tag == kDevicesTag) {
      if (!readDevices(c_, devices_)) break;
    } else {
      if (tag == kEventsTag) events_at_ = c_.offset();
      break;
    }
    if (c_.failed()) break;
  }
  if (finished && header_.events_off != 0) events_at_ = header_.events_off + 1;
  if (finished && header_.strings_off != 0)
    strings_at_ = header_.strings_off + 1;
  else if (events_at_ != 0)
    findStrings();
  if (events_at_ == 0) losses_.add("no events section", 1, "the file ends before its events");
}

/// Without a count, events end where the rest of the file is a table of strings.
void Sbt0Import::findStrings() {
  c_.seek(events_at_);
  uint64_t ts = c_.varint(), n = 0, names = 0;
  for (Event e;; ++n, ts = e.ts) {
    uint64_t at = c_.offset();
    if (looksLikeStrings(at, names)) {
      strings_at_ = at + 1;
      break;
    }
    c_.seek(at);
    if (c_.left() == 0) break;
    if (!readEvent(c_, ts, e)) {
      if (header_.event_count == 0)
        losses_.add("missing events", 1, "the file ends inside an event, at byte " + std::to_string(at));
      break;
    }
    names = std::max(names, e.name + 1);
  }
  if (header_.event_count == 0) header_.event_count = n;
}

/// The tag of the strings is also an event type. It is the tag if strings follow up to the end of the file, at least as
/// many as there are names in use; the last may be cut.
bool Sbt0Import::looksLikeStrings(uint64_t offset, uint64_t names) {
  c_.seek(offset);
  if (c_.byte() != kStringsTag) return false;
  uint64_t n = c_.varint();
  if (c_.failed() || n < names || n > c_.left() + names) return false;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t length = c_.varint();
    if (c_.failed()) return i > 0;
    if (search_budget_ < 16) return false;
    search_budget_ -= 16;
    for (uint64_t k = 0; k < std::min<uint64_t>(length, 64); ++k) {
      uint8_t b = c_.byte();
      if (c_.failed()) return i > 0 || k > 0;
      if (b < 0x20 && b != '\n' && b != '\t') return false;
    }
    c_.skip(length - std::min<uint64_t>(length, 64));
    if (c_.failed()) return true;
  }
  return c_.left() == 0 || (c_.byte() == kEndTag && c_.left() == 0);
}

void Sbt0Import::events() {
  c_.seek(events_at_);
  uint64_t ts = c_.varint();
  Event e;
  uint64_t read = 0;
  for (; read < header_.event_count; ++read) {
    uint64_t at = c_.offset();
    if (!readEvent(c_, ts, e)) {
      losses_.add("missing events", header_.event_count - read,
                  std::string(c_.left() == 0 ? "the file ends" : "the events are damaged") + " at byte " +
                      std::to_string(at) + ", after " + humanCount(read) + " events");
      return;
    }
    ts = e.ts;
    add(e);
  }
}

std::string Sbt0Import::args(const Event& e) {
  std::string out;
  JsonWriter json(out);
  json.beginObject().field("type", typeName(e.type));
  if (e.flags & kMemory) json.field("source", e.source).field("destination", e.destination);
  if (e.flags & kStack) {
    json.key("stack").beginArray();
    for (const Frame& f : e.frames) {
      json.beginObject().field("address", f.address);
      if (strings_.has(f.function)) json.field("function", strings_.at(f.function));
      if (strings_.has(f.file)) json.field("file", strings_.at(f.file));
      json.field("line", f.line).endObject();
    }
    json.endArray();
  }
  json.endObject();
  return out;
}

void Sbt0Import::add(const Event& e) {
  EventRow row;
  row.ts = int64Slot(e.ts);
  if (row.ts == kNull) return losses_.add("out of range", 1, "time " + std::to_string(e.ts));
  const EventType type = typeOf(e.type);
  row.type = static_cast<int64_t>(type);
  if (e.flags & kDuration) row.dur = int64Slot(e.duration);
  if (strings_.has(e.name))
    row.name = writer_.string(strings_.at(e.name));
  else
    losses_.add("name missing", 1, "name " + std::to_string(e.name) + " is not in the string table");
  row.device = int32Slot(e.device);
  row.stream = int64Slot(e.stream);
  row.correlation = int64Slot(e.correlation);
  if (e.flags & kKernel) {
    LaunchShape shape;
    shape.grid_x = shapeField(e.grid[0]);
    shape.grid_y = shapeField(e.grid[1]);
    shape.grid_z = shapeField(e.grid[2]);
    shape.block_x = shapeField(e.block[0]);
    shape.block_y = shapeField(e.block[1]);
    shape.block_z = shapeField(e.block[2]);
    shape.shared_static = shapeField(e.shared);
    shape.registers = shapeField(e.registers);
    row.launch = writer_.launch(shape);
  }
  if (e.flags & kMemory) row.bytes = int64Slot(e.size);
  if (e.flags & kStack) row.tid = int64Slot(e.tid);
  if (!isDeviceType(type) && has_metadata_) row.pid = int64Slot(metadata_.pid);
  row.args = sink_.text(args(e));
  sink_.add(row);
  if (++events_ % 65536 == 0) (void)writer_.flushStrings();
}

void Sbt0Import::nodesAndDevices(const std::string& node) {
  if (!node.empty()) {
    NodeRow row;
    row.hostname = writer_.string(metadata_.host.empty() ? node : metadata_.host);
    sink_.add(row);
  }
  for (const Device& d : devices_) {
    DeviceRow row;
    row.device = int32Slot(d.id);
    row.name = writer_.string(d.name);
    row.vendor = writer_.string(d.vendor);
    row.cc_major = int32Slot(d.cc_major);
    row.cc_minor = int32Slot(d.cc_minor);
    row.memory = int64Slot(d.memory);
    row.memory_clock_khz = int64Slot(d.memory_clock_khz);
    row.bus_bits = int32Slot(d.bus_bits);
    row.sms = int32Slot(d.sms);
    row.clock_khz = int64Slot(d.clock_khz);
    row.warp = int32Slot(d.warp);
    row.args = sink_.text("{\"maxThreadsPerMultiprocessor\":" + std::to_string(d.max_threads) + "}");
    sink_.add(row);
  }
}

Status Sbt0Import::finish(int64_t rank, const std::string& given_node, Sbt0Result& result) {
  const std::string node = given_node.empty() ? metadata_.host : given_node;
  result.facts.rank = rank;
  if (!node.empty()) result.facts.node = writer_.string(node);
  if (has_metadata_) {
    result.facts.pid = int64Slot(metadata_.pid);
    ProcessRow row;
    row.pid = result.facts.pid;
    if (!metadata_.app.empty()) row.name = writer_.string(metadata_.app);
    row.command = sink_.text(metadata_.command);
    row.ts_start = int64Slot(metadata_.start);
    row.ts_end = int64Slot(metadata_.end);
    sink_.add(row);
  }
  nodesAndDevices(node);
  writeLosses(losses_, writer_, sink_);
  result.losses = losses_;
  result.events = events_;
  StepsOfRanks steps;
  return sink_.finish(result.facts, steps);
}

}  // namespace

Result<Sbt0Result> importSbt0(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                              const std::string& node) {
  Result<uint64_t> size = file.size();
  if (!size) return size.status();
  Sbt0Import import(file, *size, writer, std::move(sink));
  TS_TRY(import.run());
  Sbt0Result result;
  TS_TRY(import.finish(rank, node, result));
  return result;
}

}  // namespace tracesmith::trace
