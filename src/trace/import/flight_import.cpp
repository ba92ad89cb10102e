#include "trace/import/flight_import.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.hpp"
#include "trace/import/pickle.hpp"

namespace tracesmith::trace {
namespace {

using Value = PickleValue;

constexpr uint64_t kMostBytes = 512u << 20;
constexpr size_t kMostFrames = 32;  // of a call's stack that are kept

int64_t integerOf(const Value* v) { return v && v->isInteger() ? v->integer : kNull; }
std::string_view textOf(const Value* v) { return v && v->isText() ? v->text : std::string_view(); }

/// Bytes of an element; 0: not known.
int64_t sizeOf(std::string_view type) {
  static constexpr std::pair<std::string_view, int64_t> kTypes[] = {
      {"Float", 4},        {"Half", 2},           {"BFloat16", 2}, {"Double", 8}, {"Long", 8},
      {"Int", 4},          {"Short", 2},          {"Byte", 1},     {"Char", 1},   {"Bool", 1},
      {"ComplexFloat", 8}, {"ComplexDouble", 16}, {"UInt16", 2},   {"UInt32", 4}, {"UInt64", 8}};
  for (const auto& [name, size] : kTypes)
    if (type == name) return size;
  return type.starts_with("Float8") ? 1 : 0;
}

/// What tensors hold in all; false: the file does not say it.
bool amount(const Value* sizes, const Value* types, int64_t& elements, int64_t& bytes) {
  if (!sizes || !sizes->isList() || !types || !types->isList() || sizes->items.size() != types->items.size())
    return false;
  __int128 n = 0, all = 0;
  for (size_t i = 0; i < sizes->items.size(); ++i) {
    const Value& size = *sizes->items[i];
    const int64_t each = sizeOf(textOf(types->items[i]));
    if (!size.isList() || each == 0) return false;
    __int128 product = 1;
    for (const Value* d : size.items) {
      if (!d->isInteger() || d->integer < 0) return false;
      product *= d->integer;
      if (product > INT64_MAX) return false;
    }
    n += product;
    all += product * each;
  }
  if (n > INT64_MAX || all > INT64_MAX) return false;
  elements = static_cast<int64_t>(n);
  bytes = static_cast<int64_t>(all);
  return true;
}

/// "[0, 1, 2]", or a list.
std::vector<int64_t> ranksOf(const Value* v) {
  std::vector<int64_t> ranks;
  if (v && v->isList()) {
    for (const Value* r : v->items)
      if (r->isInteger()) ranks.push_back(r->integer);
    return ranks;
  }
  std::string_view text = textOf(v);
  while (!text.empty()) {
    const size_t begin = text.find_first_of("0123456789");
    if (begin == text.npos) break;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    int64_t rank = 0;
    if (parseInt(text.substr(begin, end - begin), rank)) ranks.push_back(rank);
    text.remove_prefix(end);
  }
  return ranks;
}

/// "send 0->1", "recv 1<-0": the other one.
int64_t peerOf(std::string_view name) {
  const size_t arrow = std::min(name.find("->"), name.find("<-"));
  if (arrow == name.npos) return kNull;
  int64_t peer = 0;
  const std::string_view rest = name.substr(arrow + 2);
  return parseInt(rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size())), peer) ? peer : kNull;
}

class FlightImport {
 public:
  FlightImport(Writer& writer, RowSink::Options sink, int64_t rank, const std::string& node,
               const OperationOfName& operation_of)
      : writer_(writer), sink_(writer, std::move(sink)), operation_of_(operation_of) {
    result_.facts.rank = rank;
    if (!node.empty()) result_.facts.node = writer.string(node);
  }
  Status run(const Value& root);
  Status finish(FlightResult& result);

 private:
  void groups(const Value* config);
  void entry(const Value& e);
  std::string args(const Value& e) const;

  Writer& writer_;
  RowSink sink_;
  const OperationOfName& operation_of_;
  FlightResult result_;
  std::map<std::string, std::vector<int64_t>, std::less<>> members_;  // ranks of a group, by its name
};

void FlightImport::groups(const Value* config) {
  if (!config || config->kind != Value::Kind::dictionary) return;
  for (size_t i = 0; i + 1 < config->items.size(); i += 2) {
    const Value& about = *config->items[i + 1];
    std::string_view name = textOf(about.get("name"));
    if (name.empty()) name = textOf(config->items[i]);
    if (name.empty()) continue;
    std::vector<int64_t> ranks = ranksOf(about.get("ranks"));
    GroupRow row;
    row.comm = writer_.string(name);
    if (const auto text = textOf(about.get("desc")); !text.empty()) row.description = writer_.string(text);
    row.backend = writer_.string("nccl");
    if (!ranks.empty()) {
      row.size = static_cast<int64_t>(ranks.size());
      std::string json;
      JsonWriter w(json);
      w.beginArray();
      for (const int64_t r : ranks) w.value(r);
      w.endArray();
      row.ranks = sink_.text(json);
      if (textOf(about.get("desc")) == "default_pg") result_.facts.world_size = row.size;
    }
    sink_.add(row);
    members_[std::string(name)] = std::move(ranks);
  }
}

/// What has no column.
std::string FlightImport::args(const Value& e) const {
  std::string json;
  JsonWriter w(json);
  w.beginObject().field("state", textOf(e.get("state"))).field("profiling_name", textOf(e.get("profiling_name")));
  for (const char* key : {"record_id", "op_id", "timeout_ms"})
    if (const int64_t value = integerOf(e.get(key)); value != kNull) w.field(key, value);
  if (const Value* frames = e.get("frames"); frames && frames->isList()) {
    w.key("frames").beginArray();
    for (size_t i = 0; i < std::min(frames->items.size(), kMostFrames); ++i) {
      const Value& f = *frames->items[i];
      const int64_t line = integerOf(f.get("line"));
      w.value(std::string(textOf(f.get("name"))) + " (" + std::string(textOf(f.get("filename"))) +
              (line == kNull ? "" : ":" + std::to_string(line)) + ")");
    }
    w.endArray();
  }
  w.endObject();
  return json;
}

void FlightImport::entry(const Value& e) {
  const std::string_view name = textOf(e.get("profiling_name")), state = textOf(e.get("state"));
  const int64_t created = integerOf(e.get("time_created_ns"));
  if (name.empty() || created == kNull || created < 0)
    return result_.losses.add("unknown entry", 1, "an entry without a name or the time when it was made");
  CollectiveRow row;
  const std::string op = operation_of_ ? operation_of_(name.substr(0, name.find(' '))) : std::string(name);
  row.op = writer_.string(op);
  const Value* group = e.get("process_group");
  std::string comm(group && group->isList() && !group->items.empty() ? textOf(group->items[0]) : std::string_view());
  if (const int64_t id = integerOf(e.get("pg_id")); comm.empty() && id != kNull) comm = std::to_string(id);
  row.comm = writer_.string(comm);
  const Value* flag = e.get("is_p2p");
  const bool pair = (flag && flag->kind == Value::Kind::flag && flag->integer) || op == "send" || op == "recv";
  row.seq = integerOf(e.get(pair ? "p2p_seq_id" : "collective_seq_id"));
  if (row.seq == kNull) row.seq = integerOf(e.get("seq_id"));  // older versions
  const auto members = members_.find(comm);
  if (members != members_.end() && !members->second.empty()) {
    const std::vector<int64_t>& ranks = members->second;
    row.group_size = static_cast<int64_t>(ranks.size());
    const auto own = std::find(ranks.begin(), ranks.end(), result_.facts.rank);
    if (own != ranks.end()) row.group_rank = own - ranks.begin();
  }
  if (const int64_t peer = pair ? peerOf(name) : kNull; peer != kNull) {
    const bool known = members != members_.end() && static_cast<size_t>(peer) < members->second.size();
    row.peer = known ? members->second[static_cast<size_t>(peer)] : peer;
  }
  const bool receives = op == "reduce_scatter" || op == "scatter" || op == "recv";
  const Value* types = e.get(receives ? "output_dtypes" : "input_dtypes");
  (void)amount(e.get(receives ? "output_sizes" : "input_sizes"), types, row.elements, row.bytes);
  if (types && types->isList() && !types->items.empty())
    if (const auto type = textOf(types->items[0]); !type.empty()) row.dtype = writer_.string(type);
  row.ts_enqueue = created;
  const int64_t started = integerOf(e.get("time_discovered_started_ns"));
  const int64_t completed = integerOf(e.get("time_discovered_completed_ns"));
  row.ts = started != kNull && started >= created ? started : created;
  const Value* measured = e.get("duration_ms");  // with TORCH_NCCL_ENABLE_TIMING
  if (measured && measured->kind == Value::Kind::real && measured->real >= 0 && measured->real < 1e9)
    row.dur = std::llround(measured->real * 1e6);
  else if (completed != kNull && completed >= row.ts)
    row.dur = completed - row.ts;
  else if (state == "completed")
    result_.losses.add("end not known", 1, "an operation that had ended, but the dump does not say when");
  row.args = sink_.text(args(e));
  sink_.add(row);
  ++result_.collectives;
  result_.first_ns = result_.first_ns == kNull ? created : std::min(result_.first_ns, created);
  result_.last_ns = std::max({result_.last_ns, created, row.dur == kNull ? row.ts : row.ts + row.dur});
}

Status FlightImport::run(const Value& root) {
  const Value* entries = root.get("entries");
  if (!entries || !entries->isList())
    return Status::corrupt("it is no dump of torch's flight recorder: it has no `entries`");
  groups(root.get("pg_config"));
  if (const auto version = textOf(root.get("version")); !version.empty()) {
    MetadataRow row;
    row.key = writer_.string("flight_recorder_version");
    row.value = sink_.text(version);
    sink_.add(row);
  }
  int64_t first = kNull;  // entries are numbered from 0; the recorder keeps the last ones
  for (const Value* e : entries->items) {
    const int64_t id = integerOf(e->get("record_id"));
    if (id != kNull && (first == kNull || id < first)) first = id;
    entry(*e);
    TS_TRY(sink_.state());
  }
  if (first != kNull && first > 0)
    result_.losses.add("overwritten", static_cast<uint64_t>(first),
                       "older operations that the recorder had no room for (TORCH_NCCL_TRACE_BUFFER_SIZE)");
  ProcessRow process;
  process.world_size = result_.facts.world_size;
  process.name = writer_.string("flight recorder");
  sink_.add(process);
  return {};
}

Status FlightImport::finish(FlightResult& result) {
  writeLosses(result_.losses, writer_, sink_);
  StepsOfRanks none;
  TS_TRY(sink_.finish(result_.facts, none));
  result = std::move(result_);
  return {};
}

}  // namespace

Result<FlightResult> importFlight(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                                  const std::string& node, const OperationOfName& operation_of) {
  struct stat state {};
  if (::fstat(file.fd(), &state) != 0) return errnoStatus("read", file.path());
  const auto size = static_cast<uint64_t>(state.st_size);
  if (size > kMostBytes)
    return Status::unsupported(file.path() + " is larger than " + humanBytes(kMostBytes) + ": no dump is");
  std::string bytes(size, 0);
  size_t got = 0;
  TS_TRY(file.readAt(0, bytes.data(), bytes.size(), got));
  bytes.resize(got);
  const Result<Pickle> pickle = Pickle::parse(bytes);
  const auto named = [&](const Status& s) { return Status(s.code(), file.path() + ": " + s.message()); };
  if (!pickle) return named(pickle.status());
  FlightImport import(writer, std::move(sink), rank, node, operation_of);
  if (Status s = import.run(pickle->root()); !s) return named(s);
  FlightResult result;
  TS_TRY(import.finish(result));
  return result;
}

}  // namespace tracesmith::trace
