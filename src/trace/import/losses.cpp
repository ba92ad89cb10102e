#include "trace/import/losses.hpp"

#include "trace/import/row_sink.hpp"

namespace tracesmith::trace {

void writeLosses(const Losses& losses, Writer& writer, RowSink& sink) {
  for (const auto& [cause, entry] : losses.entries()) {
    LossRow row;
    row.cause = writer.string(cause);
    row.count = static_cast<int64_t>(entry.count);
    row.detail = sink.text(entry.example);
    sink.add(row);
  }
}

}  // namespace tracesmith::trace
