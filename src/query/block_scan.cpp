#include "query/block_scan.hpp"

#include <algorithm>
#include <atomic>
#include <duckdb/catalog/catalog.hpp>
#include <duckdb/execution/partition_info.hpp>
#include <duckdb/parser/parsed_data/create_table_function_info.hpp>
#include <duckdb/planner/operator/logical_get.hpp>
#include <duckdb/storage/statistics/node_statistics.hpp>
#include <duckdb/storage/statistics/numeric_stats.hpp>
#include <utility>

#include "base/text.hpp"
#include "query/block_bringer.hpp"
#include "query/block_cursor.hpp"
#include "query/prune.hpp"
#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using duckdb::ClientContext;
using duckdb::FunctionData;
using duckdb::TableFunction;
using trace::Kind;

struct ScanInfo : duckdb::TableFunctionInfo {
  std::shared_ptr<TraceSet> traces;  // shared with the engine: a plan may live as long as the connection
};

/// One use of a table in a query. Pruned while the query is planned.
struct BoundScan : FunctionData {
  std::shared_ptr<TraceSet> traces;  // as in ScanInfo
  const trace::TableInfo* table = nullptr;
  std::vector<TraceSet::BlockRef> blocks;

  uint64_t rows() const {
    uint64_t rows = 0;
    for (const TraceSet::BlockRef& ref : blocks) rows += ref.block->rows;
    return rows;
  }
  uint64_t total() const { return traces->blocks(*table).size(); }

  duckdb::unique_ptr<FunctionData> Copy() const override {
    auto copy = duckdb::make_uniq<BoundScan>();
    copy->traces = traces;
    copy->table = table;
    copy->blocks = blocks;
    return copy;
  }
  bool Equals(const FunctionData& other) const override {
    auto& o = other.Cast<BoundScan>();
    return traces == o.traces && table == o.table && blocks.size() == o.blocks.size() &&
           std::equal(blocks.begin(), blocks.end(), o.blocks.begin(),
                      [](auto& a, auto& b) { return a.block == b.block; });
  }
};

struct GlobalScan : duckdb::GlobalTableFunctionState {
  ScanPlan plan;
  std::vector<TraceSet::BlockRef> blocks;
  uint64_t total = 0;
  std::unique_ptr<BlockBringer> bringer;  // of a trace that is not all here
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> decoded{0};

  ~GlobalScan() override {
    try {
      plan.traces->report({plan.table->name, total, blocks.size(), decoded});
    } catch (...) {  // out of memory: the report is not worth a crash
    }
  }
  duckdb::idx_t MaxThreads() const override { return std::max<size_t>(1, blocks.size()); }
};

struct LocalScan : duckdb::LocalTableFunctionState {
  std::unique_ptr<BlockCursor> cursor;
  size_t block = 0;  // position in GlobalScan::blocks
  bool loaded = false;
};

duckdb::unique_ptr<FunctionData> bind(ClientContext&, duckdb::TableFunctionBindInput& input,
                                      duckdb::vector<duckdb::LogicalType>& types,
                                      duckdb::vector<duckdb::string>& names) {
  auto bound = duckdb::make_uniq<BoundScan>();
  bound->traces = input.info->Cast<ScanInfo>().traces;
  std::string name = input.inputs[0].IsNull() ? "" : duckdb::StringValue::Get(input.inputs[0]);
  bound->table = trace::findTable(name);
  if (!bound->table) throw duckdb::BinderException("traces have no table \"%s\"", name);
  bound->blocks = bound->traces->blocks(*bound->table);
  for (const SqlColumn& c : bound->traces->columns(*bound->table)) {
    types.push_back(c.type);
    names.push_back(c.name);
  }
  return bound;
}

/// SQL columns by the bindings of a scan's expressions.
std::vector<const SqlColumn*> columnsOf(const duckdb::LogicalGet& get, const BoundScan& bound) {
  const std::vector<SqlColumn>& all = bound.traces->columns(*bound.table);
  std::vector<const SqlColumn*> columns;
  for (auto& index : get.GetColumnIds())
    columns.push_back(index.GetPrimaryIndex() < all.size() ? &all[index.GetPrimaryIndex()] : nullptr);
  return columns;
}

void pushdownFilter(ClientContext& context, duckdb::LogicalGet& get, FunctionData* data,
                    duckdb::vector<duckdb::unique_ptr<duckdb::Expression>>& filters) {
  auto& bound = data->Cast<BoundScan>();
  const std::vector<const SqlColumn*> columns = columnsOf(get, bound);
  for (auto& filter : filters) {  // they stay: zones only say where to look
    ZoneCondition condition(context, *filter, columns, *bound.traces);
    std::erase_if(bound.blocks, [&](const TraceSet::BlockRef& ref) { return !condition.mayMatch(ref); });
  }
}

/// Names the column has in the blocks that are left; at most as many as there are strings.
uint64_t distinctNames(const BoundScan& bound, const SqlColumn& column, bool& nulls) {
  uint64_t distinct = 0;
  std::pair<uint32_t, uint32_t> last(UINT32_MAX, 0);
  for (const TraceSet::BlockRef& ref : bound.blocks) {
    if (last == std::pair(ref.source, ref.block->stream)) continue;
    last = {ref.source, ref.block->stream};
    IdRange range = bound.traces->idRange(*bound.table, column.column, ref.source, ref.block->stream);
    nulls = nulls || range.nulls;
    distinct = std::max<uint64_t>(distinct, range.high - range.low + 1);
  }
  return distinct;
}

/// Conditions on names and types are asked once for each name, not for each row. Worth it unless rows are fewer.
bool pushdownExpression(ClientContext&, const duckdb::LogicalGet& get, duckdb::Expression& condition) {
  auto& bound = get.bind_data->Cast<BoundScan>();
  const SqlColumn* column = onlyColumn(condition, columnsOf(get, bound));
  if (!column) return false;
  if (column->column < 0 || column->kind == Kind::Type) return true;
  if (column->kind != Kind::Str && column->kind != Kind::Launch) return false;
  bool nulls = false;
  return distinctNames(bound, *column, nulls) < bound.rows();
}

duckdb::unique_ptr<duckdb::NodeStatistics> cardinality(ClientContext&, const FunctionData* data) {
  if (data->Cast<BoundScan>().traces->isAbsent(*data->Cast<BoundScan>().table)) return nullptr;
  uint64_t rows = data->Cast<BoundScan>().rows();
  return duckdb::make_uniq<duckdb::NodeStatistics>(rows, rows);
}

/// Lets DuckDB choose narrow sums, small hash keys and the order of joins.
duckdb::unique_ptr<duckdb::BaseStatistics> statistics(ClientContext&, const FunctionData* data,
                                                      duckdb::column_t index) {
  auto& bound = data->Cast<BoundScan>();
  const std::vector<SqlColumn>& columns = bound.traces->columns(*bound.table);
  if (index >= columns.size() || bound.traces->isAbsent(*bound.table)) return nullptr;
  const SqlColumn& column = columns[index];
  if (column.column < 0 || column.kind == Kind::Text || column.kind == Kind::Launch || bound.blocks.empty())
    return nullptr;
  const uint64_t rows = bound.rows();
  if (column.kind == Kind::Str) {
    bool nulls = false;
    const uint64_t distinct = distinctNames(bound, column, nulls);
    auto stats = duckdb::BaseStatistics::CreateUnknown(column.type);
    if (!nulls) stats.Set(duckdb::StatsInfo::CANNOT_HAVE_NULL_VALUES);
    stats.SetDistinctCount(std::min(rows, distinct));
    return stats.ToUnique();
  }
  auto stats = zoneStatistics(column, bound.blocks);
  if (column.kind == Kind::Int32 && stats.CanHaveNoNull()) {
    auto low = duckdb::NumericStats::GetMin<int32_t>(stats), high = duckdb::NumericStats::GetMax<int32_t>(stats);
    stats.SetDistinctCount(std::min<uint64_t>(rows, static_cast<uint64_t>(int64_t{high} - low + 1)));
  }
  return stats.ToUnique();
}

duckdb::unique_ptr<duckdb::GlobalTableFunctionState> initGlobal(ClientContext&, duckdb::TableFunctionInitInput& input) {
  static std::atomic<uint64_t> scans{0};
  auto& bound = input.bind_data->Cast<BoundScan>();
  if (bound.traces->isAbsent(*bound.table))
    throw duckdb::IOException("the rows of \"%s\" were not fetched: write its name in the statement",
                              bound.table->name);
  const std::vector<SqlColumn>& columns = bound.traces->columns(*bound.table);
  auto column = [&](duckdb::idx_t i) {
    return input.column_ids[i] < columns.size() ? &columns[input.column_ids[i]] : nullptr;
  };
  auto global = duckdb::make_uniq<GlobalScan>();
  global->blocks = bound.blocks;
  global->total = bound.total();
  ScanPlan& plan = global->plan;
  plan.traces = bound.traces;
  plan.table = bound.table;
  plan.id = scans++;
  plan.rows = bound.rows();
  if (input.CanRemoveFilterColumns()) {
    for (duckdb::idx_t i : input.projection_ids) plan.output.push_back(column(i));
  } else {
    for (duckdb::idx_t i = 0; i < input.column_ids.size(); ++i) plan.output.push_back(column(i));
  }
  if (input.filters)
    for (auto& [i, filter] : input.filters->filters) plan.filters.push_back({column(i), filter.get()});
  if (plan.traces->incomplete()) global->bringer = std::make_unique<BlockBringer>(plan, global->blocks);
  return global;
}

duckdb::unique_ptr<duckdb::LocalTableFunctionState> initLocal(duckdb::ExecutionContext& context,
                                                              duckdb::TableFunctionInitInput&,
                                                              duckdb::GlobalTableFunctionState* global) {
  auto local = duckdb::make_uniq<LocalScan>();
  local->cursor = std::make_unique<BlockCursor>(global->Cast<GlobalScan>().plan, context.client);
  return local;
}

void scan(ClientContext& context, duckdb::TableFunctionInput& input, duckdb::DataChunk& chunk) {
  auto& global = input.global_state->Cast<GlobalScan>();
  auto& local = input.local_state->Cast<LocalScan>();
  for (;;) {
    if (local.loaded) {
      local.cursor->next(chunk);
      if (chunk.size() > 0) return;
      local.loaded = false;
    }
    if (context.interrupted) throw duckdb::InterruptException();
    local.block = global.next++;
    if (local.block >= global.blocks.size()) {
      chunk.SetCardinality(0);
      return;
    }
    if (global.bringer && !global.bringer->bring(local.block, context)) continue;
    local.loaded = local.cursor->load(global.blocks[local.block]);
    global.decoded += local.cursor->decoded();
  }
}

duckdb::OperatorPartitionData partition(ClientContext&, duckdb::TableFunctionGetPartitionInput& input) {
  if (input.partition_info.RequiresPartitionColumns())
    throw duckdb::InternalException("sbt_scan has no partition columns");
  return duckdb::OperatorPartitionData(
      input.local_state->Cast<LocalScan>().block);  // results come in the order of the file
}

/// count(*) without a look at any row.
duckdb::vector<duckdb::PartitionStatistics> partitionStatistics(ClientContext&, duckdb::GetPartitionStatsInput& input) {
  auto& bound = input.bind_data->Cast<BoundScan>();
  if (bound.traces->isAbsent(*bound.table)) return {};
  duckdb::PartitionStatistics all;
  all.count = bound.rows();
  all.count_type = duckdb::CountType::COUNT_EXACT;
  return {all};
}

double progress(ClientContext&, const FunctionData*, const duckdb::GlobalTableFunctionState* state) {
  auto& global = state->Cast<GlobalScan>();
  if (global.blocks.empty()) return 100;
  return 100.0 * static_cast<double>(std::min(global.next.load(), global.blocks.size())) /
         static_cast<double>(global.blocks.size());
}

duckdb::InsertionOrderPreservingMap<duckdb::string> describe(duckdb::TableFunctionToStringInput& input) {
  auto& bound = input.bind_data->Cast<BoundScan>();
  duckdb::InsertionOrderPreservingMap<duckdb::string> out;
  out["Table"] = bound.table->name;
  out["Blocks"] = humanCount(bound.blocks.size()) + " of " + humanCount(bound.total());
  return out;
}

duckdb::InsertionOrderPreservingMap<duckdb::string> describeRun(duckdb::TableFunctionDynamicToStringInput& input) {
  auto& global = input.global_state->Cast<GlobalScan>();
  duckdb::InsertionOrderPreservingMap<duckdb::string> out;
  out["Blocks decoded"] = humanCount(global.decoded) + " of " + humanCount(global.total);
  return out;
}

/// Lets count(*) with a WHERE ask for no column at all.
duckdb::virtual_column_map_t virtualColumns(ClientContext&, duckdb::optional_ptr<FunctionData>) {
  duckdb::virtual_column_map_t out;
  out.insert({duckdb::COLUMN_IDENTIFIER_EMPTY, duckdb::TableColumn("", duckdb::LogicalType::BOOLEAN)});
  return out;
}

}  // namespace

void registerTables(duckdb::Connection& connection, std::shared_ptr<TraceSet> traces) {
  auto info = duckdb::make_shared_ptr<ScanInfo>();
  info->traces = std::move(traces);
  TableFunction function("sbt_scan", {duckdb::LogicalType::VARCHAR}, scan, bind, initGlobal, initLocal);
  function.function_info = info;
  function.projection_pushdown = true;
  function.filter_pushdown = true;
  function.filter_prune = true;
  function.pushdown_complex_filter = pushdownFilter;
  function.pushdown_expression = pushdownExpression;
  function.cardinality = cardinality;
  function.statistics = statistics;
  function.get_partition_data = partition;
  function.get_partition_stats = partitionStatistics;
  function.table_scan_progress = progress;
  function.to_string = describe;
  function.dynamic_to_string = describeRun;
  function.get_virtual_columns = virtualColumns;
  duckdb::CreateTableFunctionInfo create(function);
  connection.BeginTransaction();
  duckdb::Catalog::GetSystemCatalog(*connection.context).CreateTableFunction(*connection.context, create);
  connection.Commit();
  for (const trace::TableInfo& table : trace::tables()) {
    auto result =
        connection.Query(std::string("CREATE VIEW ") + table.name + " AS SELECT * FROM sbt_scan('" + table.name + "')");
    if (result->HasError()) result->ThrowError();
  }
}

}  // namespace tracesmith::query
