// A trace as Kineto writes it: Chrome's JSON, event by event, rank by rank.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "base/text.hpp"
#include "trace/export/chrome_args.hpp"
#include "trace/export/export.hpp"
#include "trace/export/id_set.hpp"
#include "trace/export/names.hpp"
#include "trace/export/ranks.hpp"

namespace tracesmith::trace {

/// Kineto's category of an event type; empty if it has none.
std::string_view chromeCategory(EventType type);
/// Appends ns as µs with three decimals: exact.
void appendMicroseconds(std::string& out, int64_t ns);
/// Times are written in µs after this many ns, which the file states. 0 unless times are so large that readers which
/// take numbers as doubles would lose nanoseconds; then the same for all traces of about eleven days, so that files of
/// one job agree.
int64_t chromeBaseNs(const Reader& reader, const CommonClock* clock);

/// Whether a row of `metadata` was an event of its own in the imported file (of phase M).
bool isChromeMetadataEvent(std::string_view key, std::string_view value);

/// Everything before the first event, from "{" to "\"traceEvents\":[".
/// `rank`: the only rank that is exported, or kNull if there are several or none.
Status appendChromeHeader(std::string& out, const Reader& reader, int64_t rank, int64_t base_ns);

/// Writes one trace. With one rank in it, numbers of processes are as Kineto gives them: the process id for host rows,
/// the device for device rows. With several these would meet, so each process and each GPU of each rank gets a number
/// of its own.
class Chrome {
 public:
  explicit Chrome(Export& e) : export_(e) {}

  Status run();

 private:
  TimeOrder rows(const TableInfo& table, int64_t rank, std::vector<int> columns) {
    return rowsOfRank(export_.reader, table, export_.selection, rank, std::move(columns));
  }

  /// Starts an event; close() writes it.
  JsonWriter open(const char* phase);
  Status close(JsonWriter& json);
  void microseconds(JsonWriter& json, const char* key, int64_t ns);
  void time(JsonWriter& json, int64_t ts);
  void place(JsonWriter& json, int64_t pid, int64_t tid);

  // Who is who (chrome_tracks.cpp).
  template <typename Fill>
  Status metadata(std::string_view name, int64_t pid, int64_t tid, Fill fill);
  Status describe(int64_t number, std::string_view node, int64_t rank, int64_t pid, int64_t device);
  int64_t numberOf(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status);
  int64_t hostPid(std::string_view node, int64_t rank, int64_t pid, Status& status);
  int64_t devicePid(std::string_view node, int64_t rank, int64_t pid, int64_t device, Status& status);
  /// Of a row of `threads` or `flows`, which has the device of a stream where others have the process.
  int64_t trackPid(std::string_view node, int64_t rank, int64_t pid, Status& status);
  Status processNames(int64_t rank);
  Status threadNames(int64_t rank);

  Status correlate(int64_t rank);
  Status loadCollectives(const std::vector<int64_t>& ranks);
  Status events(int64_t rank);
  void eventArgs(JsonWriter& json, const Row& row, int64_t rank, bool on_device);
  void collectiveArgs(JsonWriter& json, int64_t rank, int64_t correlation);
  Status arrow(const Row& row, bool on_device, int64_t pid, int64_t tid);
  /// Arrows are joined by their number in the whole file, but numbers are given out rank by rank.
  int64_t arrowId(int64_t id) const;
  Status steps(int64_t rank);
  Status flows(int64_t rank);
  Status counters(int64_t rank);
  Status metrics();

  /// What Kineto says in the args of a collective's kernel.
  struct Collective {
    std::string_view op, comm, dtype;
    int64_t elements, group_size, seq, peer;
  };

  Export& export_;
  Names names_;
  std::map<std::tuple<std::string_view, int64_t, int64_t, int64_t>, int64_t> numbers_;  // node, rank, pid, device
  bool several_ = false;                                                                // ranks
  bool devices_described_ = false;                                                      // by metadata that was imported
  bool first_ = true;
  uint64_t rank_index_ = 0;
  int64_t base_ns_ = 0;
  std::string line_, number_;
  ChromeArgs args_;
  // Of the rank at work:
  IdSet launched_, ran_;
  bool draw_launches_ = true;
  // Of its batch, by rank and correlation:
  std::map<int64_t, std::unordered_map<int64_t, Collective>> collectives_;
};

}  // namespace tracesmith::trace
