#include "trace/import/inspector_import.hpp"

#include <cmath>
#include <map>

#include <simdjson.h>

namespace tracesmith::trace {
namespace {

using simdjson::dom::element;

constexpr size_t kMostLine = 16u << 20;

int64_t integerOf(const element& object, const char* key) {
  int64_t value = 0;
  return object[key].get(value) ? kNull : value;
}
std::string_view textOf(const element& object, const char* key) {
  std::string_view value;
  return object[key].get(value) ? std::string_view() : value;
}

class InspectorImport {
 public:
  InspectorImport(Writer& writer, RowSink::Options sink, int64_t rank, const std::string& node,
                  const OperationOfName& operation_of)
      : writer_(writer), sink_(writer, std::move(sink)), operation_of_(operation_of), node_(node) {
    result_.facts.rank = rank;
  }
  Status line(std::string_view text);
  Status finish(bool rank_given, InspectorResult& result);

 private:
  void collective(const element& header, const element& metadata, const element& perf);

  Writer& writer_;
  RowSink sink_;
  const OperationOfName& operation_of_;
  std::string node_;
  simdjson::dom::parser parser_;
  std::map<std::string, int64_t> sizes_;  // ranks of a communicator, by its id
  int64_t largest_ = 0, rank_there_ = kNull;
  InspectorResult result_;
};

void InspectorImport::collective(const element& header, const element& metadata, const element& perf) {
  const int64_t size = integerOf(header, "n_ranks"), rank = integerOf(header, "rank");
  const std::string comm(textOf(header, "id"));
  if (node_.empty()) node_ = textOf(metadata, "hostname");
  if (size != kNull && size > largest_) {
    largest_ = size;
    rank_there_ = rank;
  }
  if (size != kNull && !comm.empty()) sizes_[comm] = size;
  CollectiveRow row;
  const std::string_view name = textOf(perf, "coll");
  row.op = writer_.string(operation_of_ ? operation_of_(name) : std::string(name));
  if (!comm.empty()) row.comm = writer_.string(comm);
  row.nccl_seq = integerOf(perf, "coll_sn");
  row.group_rank = rank;
  row.group_size = size;
  row.pid = integerOf(metadata, "pid");
  row.bytes = integerOf(perf, "coll_msg_size_bytes");
  double us = 0;
  if (!perf["coll_exec_time_us"].get(us) && us >= 0 && us < 1e12) row.dur = std::llround(us * 1000);
  for (const auto& [key, slot] : {std::pair("coll_algo", &row.algo), std::pair("coll_proto", &row.proto)})
    if (const std::string_view text = textOf(perf, key); !text.empty() && text != "unknown")
      *slot = writer_.string(text);
  std::string args = simdjson::minify(perf);
  row.args = sink_.text(args);
  sink_.add(row);
  ++result_.collectives;
}

Status InspectorImport::line(std::string_view text) {
  if (text.find_first_not_of(" \t\r") == text.npos) return {};
  element root, header, metadata, perf;
  if (text.size() > kMostLine || parser_.parse(text.data(), text.size()).get(root)) {
    result_.losses.add("bad line", 1, "a line that is not JSON, or was cut");
    return {};
  }
  if (root["header"].get(header) || root["metadata"].get(metadata) || root["coll_perf"].get(perf)) {
    result_.losses.add("record not read", 1, "a record that is not of a collective, such as a send or receive");
    return {};
  }
  collective(header, metadata, perf);
  return sink_.state();
}

Status InspectorImport::finish(bool rank_given, InspectorResult& result) {
  for (const auto& [comm, size] : sizes_) {
    GroupRow row;
    row.comm = writer_.string(comm);
    row.backend = writer_.string("nccl");
    row.size = size;
    sink_.add(row);
  }
  if (!rank_given) result_.facts.rank = rank_there_;
  if (!node_.empty()) result_.facts.node = writer_.string(node_);
  if (largest_ > 0) result_.facts.world_size = largest_;
  writeLosses(result_.losses, writer_, sink_);
  StepsOfRanks none;
  TS_TRY(sink_.finish(result_.facts, none));
  result = std::move(result_);
  return {};
}

}  // namespace

Result<InspectorResult> importInspector(const File& file, Writer& writer, RowSink::Options sink, int64_t rank,
                                        const std::string& node, const OperationOfName& operation_of) {
  InspectorImport import(writer, std::move(sink), rank, node, operation_of);
  std::string held;
  std::string buffer(1 << 20, 0);
  uint64_t at = 0;
  for (size_t got = 1; got > 0;) {
    TS_TRY(file.readAt(at, buffer.data(), buffer.size(), got));
    at += got;
    held.append(buffer, 0, got);
    size_t from = 0;
    for (size_t end; (end = held.find('\n', from)) != std::string::npos; from = end + 1)
      TS_TRY(import.line(std::string_view(held).substr(from, end - from)));
    held.erase(0, from);
    if (held.size() > kMostLine) return Status::corrupt(file.path() + ": a line of more than 16 MiB");
  }
  TS_TRY(import.line(held));
  InspectorResult result;
  TS_TRY(import.finish(rank != kNull, result));
  if (result.collectives == 0)
    return Status::corrupt(file.path() + ": it is no output of NCCL's Inspector: no line tells of a collective");
  return result;
}

}  // namespace tracesmith::trace
