// A trace as Perfetto shows it: the parts of the exporter.
#pragma once

#include <string_view>
#include <vector>

#include "trace/export/export.hpp"
#include "trace/export/id_set.hpp"
#include "trace/export/names.hpp"
#include "trace/export/perfetto_tracks.hpp"
#include "trace/export/ranks.hpp"

namespace tracesmith::trace {

/// Which launches and device rows of a rank have a counterpart.
struct Correlations {
  IdSet launched, ran, ran_again;

  bool joined(int64_t id) const { return id != kNull && launched.contains(id) && ran.contains(id); }
};

/// Writes one trace, rank by rank. Times are those of the trace, in ns.
class Perfetto {
 public:
  explicit Perfetto(Export& e) : export_(e), packets_(e.out), tracks_(packets_, names_) {}

  Status run();

 private:
  TimeOrder rows(const TableInfo& table, int64_t rank, std::vector<int> columns) {
    return rowsOfRank(export_.reader, table, export_.selection, rank, std::move(columns));
  }

  /// Pid of a row, or of its rank's process.
  int64_t pidOf(const Row& row, int column, std::string_view node, int64_t rank) const {
    int64_t pid = row.slot(column);
    return pid != kNull ? pid : names_.pidOf(node, rank);
  }

  /// Counts a row; false if Perfetto cannot hold its time.
  bool count(int64_t ts) {
    if (ts < 0) {
      ++export_.left_out;
      return false;
    }
    if ((++export_.rows & 0xffff) == 0) export_.progress.update(export_.rows, total_);
    return true;
  }

  void annotate(const Row& row, int column, std::string_view key) {
    if (int64_t v = row.slot(column); v != kNull) packets_.annotate(key, v);
  }
  void annotateText(const Row& row, int column, std::string_view key) {
    if (std::string_view v = row.text(column); !v.empty()) packets_.annotate(key, v);
  }

  Status correlate(int64_t rank);
  Status events(int64_t rank);
  void describe(const Row& row);
  Status steps(int64_t rank);
  Status collectives(int64_t rank);
  Status proxyOps(int64_t rank);
  Status counters(int64_t rank);
  Status metrics();
  Status losses();

  Export& export_;
  uint64_t total_ = export_.reader.rows(tableOf<EventRow>());
  Names names_;
  PerfettoPackets packets_;
  PerfettoTracks tracks_;
  Correlations correlations_;
};

}  // namespace tracesmith::trace
