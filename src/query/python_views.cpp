#include "query/python_views.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/hook_names.hpp"

namespace tracesmith::query {
namespace {

// Where several traces are open, $T is "trace, ", $A is "a.trace, " and $Jb is "a.trace = b.trace AND "; else nothing.

/// A row for each phase and module of a step, and one for the memory at its end. Sizes are MiB, times seconds.
constexpr const char* kTorchTrace = R"(
CREATE VIEW python.torch_trace AS
WITH facts AS (
  SELECT $Tnode, rank, max(value) FILTER (key = 'role') AS role FROM metadata WHERE key = 'role' GROUP BY ALL),
worlds AS (SELECT $Tnode, rank, max(world_size) AS world_size FROM processes GROUP BY ALL),
parts AS (
  SELECT $Tnode, rank, pid, step, ts, dur,
    CASE WHEN starts_with(name, 'module') THEN regexp_extract(name, '^module(?: backward)?: (.*?)(?: \(.*\))?$', 1) END
      AS module,
    CASE WHEN starts_with(name, 'module: ') THEN 'forward' WHEN starts_with(name, 'module backward: ') THEN 'backward'
      ELSE name END AS stage,
    NULL::DOUBLE AS allocated, NULL::DOUBLE AS max_allocated, NULL::DOUBLE AS cached
  FROM events
  WHERE type = 'annotation' AND (name IN ('data', 'forward', 'backward', 'optimizer') OR starts_with(name, 'module: ')
    OR starts_with(name, 'module backward: '))
  UNION ALL
  SELECT $Tnode, rank, pid, step, max(ts), NULL, NULL, 'post step', max(value) FILTER (name = 'memory allocated') / 1048576,
    max(value) FILTER (name = 'memory allocated, peak') / 1048576, max(value) FILTER (name = 'memory reserved') / 1048576
  FROM counters WHERE name IN ('memory allocated', 'memory allocated, peak', 'memory reserved') AND step IS NOT NULL
  GROUP BY $Tnode, rank, pid, step),
starts AS (SELECT $Tnode, rank, pid, step, min(ts) AS step_ts FROM steps GROUP BY ALL)
SELECT $Aa.step, a.step AS local_step, a.step AS global_step, module, stage, allocated, max_allocated, cached,
  (a.ts - b.step_ts) / 1e9 AS time_offset, a.dur / 1e9 AS duration, a.rank, w.world_size, f.role, a.node, a.pid, a.ts
FROM parts a
LEFT JOIN starts b ON $Jba.node IS NOT DISTINCT FROM b.node AND a.rank IS NOT DISTINCT FROM b.rank
  AND a.pid IS NOT DISTINCT FROM b.pid AND a.step = b.step
LEFT JOIN worlds w ON $Jwa.node IS NOT DISTINCT FROM w.node AND a.rank IS NOT DISTINCT FROM w.rank
LEFT JOIN facts f ON $Jfa.node IS NOT DISTINCT FROM f.node AND a.rank IS NOT DISTINCT FROM f.rank)";

/// What a rank sends and to whom, where one rank receives it; NULL: all of the communicator.
constexpr const char* kNcclTrace = R"(
CREATE VIEW python.nccl_trace AS
WITH members AS (
  SELECT $Tcomm, group_rank, any_value(rank) AS rank FROM collectives
  WHERE comm IS NOT NULL AND group_rank IS NOT NULL AND rank IS NOT NULL GROUP BY ALL)
SELECT $Aa.step, a.op AS operation,
  CASE WHEN a.op IN ('recv', 'broadcast', 'scatter') THEN coalesce(b.rank, CASE WHEN a.group_size = w.ranks THEN a.peer END)
    ELSE a.rank END AS src_rank,
  CASE WHEN a.op IN ('send', 'reduce', 'gather') THEN coalesce(b.rank, CASE WHEN a.group_size = w.ranks THEN a.peer END)
    WHEN a.op IN ('recv', 'broadcast', 'scatter') THEN a.rank END AS dst_rank,
  a.bytes AS bytes_transferred, a.dur / 1e6 AS duration_ms, a.rank, a.node, a.pid, a.ts, a.comm, a.seq, a.group_rank,
  a.group_size, a.dtype, a.algo, a.proto
FROM collectives a
LEFT JOIN members b ON $Jba.comm = b.comm AND a.peer = b.group_rank
CROSS JOIN (SELECT max(world_size) AS ranks FROM processes) w)";

/// The last value that a step logged.
constexpr const char* kTrainingMetrics = R"(
CREATE VIEW python.training_metrics AS
SELECT $Tnode, rank, step, arg_max(value, ts) FILTER (name IN ('loss', 'train_loss', 'train/loss')) AS loss,
  arg_max(value, ts) FILTER (name IN ('lr', 'learning_rate', 'train/lr', 'train/learning_rate')) AS learning_rate,
  arg_max(value, ts) FILTER (name IN ('grad_norm', 'train/grad_norm')) AS grad_norm,
  arg_max(value, ts) FILTER (name = 'mfu %') AS mfu_percent,
  arg_max(value, ts) FILTER (name = 'samples/s') AS samples_per_s,
  arg_max(value, ts) FILTER (name = 'tokens/s') AS tokens_per_s, max(dur) / 1e6 AS duration_ms, pid,
  min(ts) AS ts
FROM (
  SELECT $Tnode, rank, pid, step, ts, dur, NULL AS name, NULL::DOUBLE AS value FROM steps
  UNION ALL
  SELECT $Tnode, rank, pid, step, ts, NULL, lower(name), value FROM counters
  WHERE step IS NOT NULL AND series IS NULL AND lower(name) IN ('loss', 'train_loss', 'train/loss', 'lr', 'learning_rate',
    'train/lr', 'train/learning_rate', 'grad_norm', 'train/grad_norm', 'mfu %', 'samples/s', 'tokens/s'))
GROUP BY $Tnode, rank, pid, step)";

/// Where each thread was sampled last, and Python functions whose end was not seen; the innermost frame first.
constexpr const char* kBacktrace = R"(
CREATE VIEW python.backtrace AS
WITH looks AS (
  SELECT $Tnode, rank, pid, tid, max(ts) AS ts, arg_max(stack, ts) AS stack FROM stacks WHERE stack <> '' GROUP BY ALL),
frames AS (
  SELECT $Tnode, rank, pid, tid, ts, unnest(list_reverse(string_split(stack, ';'))) AS frame,
    generate_subscripts(string_split(stack, ';'), 1) - 1 AS depth FROM looks)
SELECT $TNULL::VARCHAR AS ip, nullif(regexp_extract(name, '^(.*)\((\d+)\): (.*)$', 1), '') AS file,
  coalesce(nullif(regexp_extract(name, '^(.*)\((\d+)\): (.*)$', 3), ''), name) AS func,
  try_cast(regexp_extract(name, '^(.*)\((\d+)\): (.*)$', 2) AS INTEGER) AS lineno,
  row_number() OVER (PARTITION BY $Tnode, rank, pid, tid ORDER BY ts DESC) - 1 AS depth, 'Python' AS frame_type, rank, node,
  pid, tid, ts
FROM events WHERE type = 'python' AND dur IS NULL
UNION ALL
SELECT $TNULL, nullif(regexp_extract(frame, '^(.*) \((.*):(\d+)\)$', 2), ''),
  coalesce(nullif(regexp_extract(frame, '^(.*) \((.*):(\d+)\)$', 1), ''), frame),
  try_cast(regexp_extract(frame, '^(.*) \((.*):(\d+)\)$', 3) AS INTEGER), depth,
  CASE WHEN regexp_matches(frame, ' \(.*:\d+\)$') THEN 'Python' ELSE 'Native' END, rank, node, pid, tid, ts
FROM frames)";

/// Kernels that CUDA graphs replay, each with what its node was captured from: the last node that had its id before.
constexpr const char* kGraphTrace = R"(
CREATE VIEW python.graph_trace AS
SELECT $Aa.step, n.module, n.phase, n.op, n.shapes, a.name AS kernel, a.dur / 1e3 AS duration_us, n.modules, a.rank, a.node,
  a.pid, a.ts, a.graph, a.graph_node
FROM (SELECT * FROM events WHERE graph_node IS NOT NULL) a
ASOF LEFT JOIN graph_nodes n ON $Jna.node = n.node AND a.pid = n.pid AND a.graph_node = n.graph_node AND a.ts >= n.ts)";

std::string withTraces(std::string text, bool several) {
  for (size_t at = 0; (at = text.find('$', at)) != std::string::npos;) {
    const char what = text[at + 1];
    if (what != 'T' && what != 'A' && what != 'J') {  // the end of a pattern
      ++at;
      continue;
    }
    std::string by = what == 'T' ? "trace, " : what == 'A' ? "a.trace, " : "a.trace = ";
    if (what == 'J') by.append(1, text[at + 2]).append(".trace AND ");
    text.replace(at, what == 'J' ? 3 : 2, several ? by : "");
  }
  return text;
}

void run(duckdb::Connection& connection, const std::string& sql) {
  if (auto result = connection.Query(sql); result->HasError()) result->ThrowError();
}

std::string quoted(std::string_view text, char quote) {
  std::string out(1, quote);
  for (char c : text) out.append(c == quote ? 2 : 1, c);
  return out + quote;
}

/// A cell is a row of `counters` whose series is the column; of a text "column=text".
std::string cellsOf(const std::string& name, const std::string& type) {
  const std::string series = quoted(name, '\''), start = quoted(name + "=", '\'');
  std::string cell = "max(value) FILTER (series = " + series + ")";
  if (type == "int") cell = "CAST(" + cell + " AS BIGINT)";
  if (type == "str")
    cell = "max(substr(series, length(" + start + ") + 1)) FILTER (starts_with(series, " + start + "))";
  return cell + " AS " + quoted(name, '"');
}

/// Names and types of columns, in their order.
using Columns = std::vector<std::pair<std::string, std::string>>;

/// Adds those of "loss float\nsplit str", as tracesmith.table() tells them. SQL does not tell "A" from "a".
void addColumns(const std::string& text, Columns& out) {
  for (const std::string& line : duckdb::StringUtil::Split(text, '\n')) {
    const size_t space = line.rfind(' ');
    if (space == std::string::npos || space == 0) continue;
    const std::string name = line.substr(0, space), low = duckdb::StringUtil::Lower(name);
    bool known = low == "trace" || low == "ts" || low == "node" || low == "rank" || low == "pid" || low == "step";
    for (const auto& column : out) known |= duckdb::StringUtil::Lower(column.first) == low;
    if (!known) out.emplace_back(name, line.substr(space + 1));
  }
}

void makeUserTables(duckdb::Connection& connection, bool several) {
  auto told = connection.Query("SELECT DISTINCT key, value FROM metadata WHERE starts_with(key, '" +
                               std::string(model::kUserTable) + "') AND value IS NOT NULL ORDER BY ALL");
  if (told->HasError()) told->ThrowError();
  std::map<std::string, Columns> tables;  // of all processes
  for (const auto& row : *told)
    addColumns(row.GetValue<std::string>(1), tables[row.GetValue<std::string>(0).substr(model::kUserTable.size())]);
  const std::string trace = several ? "trace, " : "";
  for (const auto& [name, columns] : tables) {
    if (name.empty()) continue;
    std::string sql = "CREATE VIEW IF NOT EXISTS python." + quoted(name, '"') + " AS SELECT " + trace +
                      "ts, node, rank, pid, any_value(step) AS step";
    for (const auto& [column, type] : columns) sql += ", " + cellsOf(column, type);
    sql += " FROM counters WHERE name = " + quoted(std::string(model::kUserTable) + name, '\'') + " GROUP BY " + trace +
           "ts, node, rank, pid";
    run(connection, sql);
  }
}

}  // namespace

void makePythonViews(duckdb::Connection& connection, bool several) {
  run(connection, "CREATE SCHEMA python");
  for (const char* view : {kTorchTrace, kNcclTrace, kTrainingMetrics, kBacktrace, kGraphTrace})
    run(connection, withTraces(view, several));
  makeUserTables(connection, several);
}

}  // namespace tracesmith::query
