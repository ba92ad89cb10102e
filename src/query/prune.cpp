#include "query/prune.hpp"

#include <algorithm>
#include <bit>
#include <duckdb/execution/expression_executor.hpp>
#include <duckdb/planner/expression/bound_between_expression.hpp>
#include <duckdb/planner/expression/bound_columnref_expression.hpp>
#include <duckdb/planner/expression/bound_comparison_expression.hpp>
#include <duckdb/planner/expression/bound_conjunction_expression.hpp>
#include <duckdb/planner/expression/bound_constant_expression.hpp>
#include <duckdb/planner/expression/bound_operator_expression.hpp>
#include <duckdb/planner/expression/bound_reference_expression.hpp>
#include <duckdb/planner/expression_iterator.hpp>
#include <duckdb/storage/statistics/numeric_stats.hpp>

#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using duckdb::Expression;
using duckdb::ExpressionClass;
using duckdb::ExpressionType;
using trace::Kind;

template <typename T>
bool zoneMayMatch(ExpressionType op, T low, T high, T value) {
  switch (op) {
    case ExpressionType::COMPARE_EQUAL:
      return low <= value && value <= high;
    case ExpressionType::COMPARE_NOTEQUAL:
      return low != value || high != value;
    case ExpressionType::COMPARE_LESSTHAN:
      return low < value;
    case ExpressionType::COMPARE_LESSTHANOREQUALTO:
      return low <= value;
    case ExpressionType::COMPARE_GREATERTHAN:
      return high > value;
    case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
      return high >= value;
    default:
      return true;
  }
}

bool hasNulls(const trace::Block& block, const trace::ColumnEntry* entry) {
  return !entry || entry->values < block.rows;
}

}  // namespace

struct ZoneCondition::Node {
  virtual ~Node() = default;
  virtual bool mayMatch(const TraceSet::BlockRef& ref) const = 0;
};

namespace {

using Node = ZoneCondition::Node;
using NodePtr = std::unique_ptr<Node>;

struct Constant : Node {
  bool value;
  explicit Constant(bool v) : value(v) {}
  bool mayMatch(const TraceSet::BlockRef&) const override { return value; }
};

struct Junction : Node {
  bool all;  // AND, else OR
  std::vector<NodePtr> children;
  explicit Junction(bool a) : all(a) {}
  bool mayMatch(const TraceSet::BlockRef& ref) const override {
    for (const NodePtr& child : children)
      if (child->mayMatch(ref) != all) return !all;
    return all;
  }
};

/// A number against the zone of its column.
struct NumberZone : Node {
  const SqlColumn& column;
  ExpressionType op;
  int64_t integer = 0;
  double number = 0;
  explicit NumberZone(const SqlColumn& c, ExpressionType o) : column(c), op(o) {}
  bool mayMatch(const TraceSet::BlockRef& ref) const override {
    int64_t low, high;
    if (!ref.block->zone(column.column, low, high)) return false;
    if (column.kind == Kind::Real)
      return zoneMayMatch(op, std::bit_cast<double>(low), std::bit_cast<double>(high), number);
    return zoneMayMatch(op, low, high, integer);
  }
};

/// A name that has to be the column's value.
struct NameZone : Node {
  const SqlColumn& column;
  TraceSet& traces;
  std::string name;
  mutable std::map<std::pair<uint32_t, uint32_t>, std::pair<int64_t, int64_t>> ids;  // of the streams met so far
  NameZone(const SqlColumn& c, TraceSet& t, std::string n) : column(c), traces(t), name(std::move(n)) {}
  bool mayMatch(const TraceSet::BlockRef& ref) const override {
    if (column.column < 0) return traces.sources()[ref.source].name == name;
    const trace::ColumnEntry* entry = ref.block->find(column.column);
    if (!entry) return false;
    auto [it, missing] = ids.try_emplace({ref.source, ref.block->stream});
    if (missing) it->second = traces.idsOf(ref.source, ref.block->stream, name);
    auto [low, high] = it->second;
    return low <= high && entry->zone_low <= high && low <= entry->zone_high;
  }
};

/// Types the condition is true for.
struct TypeSet : Node {
  uint64_t types = 0;
  bool null = false;
  bool mayMatch(const TraceSet::BlockRef& ref) const override {
    const trace::ColumnEntry* entry = ref.block->find(trace::events::type);
    uint64_t there = entry ? ref.block->types() : 0;
    if (there >> trace::kEventTypes)
      there |= 1ull << (trace::kEventTypes - 1);  // of a newer version: read as the last one
    return (there & types) || (null && hasNulls(*ref.block, entry));
  }
};

struct NullZone : Node {
  const SqlColumn& column;
  bool wanted;
  NullZone(const SqlColumn& c, bool w) : column(c), wanted(w) {}
  bool mayMatch(const TraceSet::BlockRef& ref) const override {
    const trace::ColumnEntry* entry = ref.block->find(column.column);
    return wanted ? hasNulls(*ref.block, entry) : entry != nullptr;
  }
};

/// Builds nodes from expressions.
struct Compiler {
  duckdb::ClientContext& context;
  const std::vector<const SqlColumn*>& columns;
  TraceSet& traces;

  static NodePtr maybe() { return std::make_unique<Constant>(true); }

  const SqlColumn* column(const Expression& e) const {
    if (e.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) return nullptr;
    auto index = e.Cast<duckdb::BoundColumnRefExpression>().binding.column_index;
    return index < columns.size() ? columns[index] : nullptr;
  }

  NodePtr comparison(const Expression& left, ExpressionType op, const Expression& right) const {
    if (left.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT && column(right))
      return comparison(right, duckdb::FlipComparisonExpression(op), left);
    const SqlColumn* c = column(left);
    if (!c || right.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) return maybe();
    const duckdb::Value& value = right.Cast<duckdb::BoundConstantExpression>().value;
    if (op == ExpressionType::COMPARE_DISTINCT_FROM || op == ExpressionType::COMPARE_NOT_DISTINCT_FROM ||
        value.type() != c->type)
      return maybe();
    if (value.IsNull()) return std::make_unique<Constant>(false);
    switch (c->kind) {
      case Kind::Launch:
      case Kind::Type:
      case Kind::Text:
        return maybe();
      case Kind::Str:
        if (op != ExpressionType::COMPARE_EQUAL) return maybe();
        return std::make_unique<NameZone>(*c, traces, duckdb::StringValue::Get(value));
      default:
        break;
    }
    auto zone = std::make_unique<NumberZone>(*c, op);
    if (c->kind == Kind::Real)
      zone->number = value.GetValueUnsafe<double>();
    else
      zone->integer = c->kind == Kind::Int32 ? value.GetValueUnsafe<int32_t>() : value.GetValueUnsafe<int64_t>();
    return zone;
  }

  NodePtr null(const Expression& child, bool wanted) const {
    const SqlColumn* c = column(child);
    // A string id may lack its string, a launch shape a field: only they are NULL without the zone knowing.
    if (!c || c->column < 0 || c->kind == Kind::Launch || c->kind == Kind::Str) return maybe();
    return std::make_unique<NullZone>(*c, wanted);
  }

  /// Asks the condition for every type there is, and for NULL.
  NodePtr types(const Expression& e, const SqlColumn& c) const {
    auto asked = e.Copy();
    duckdb::ExpressionIterator::VisitExpressionMutable<duckdb::BoundColumnRefExpression>(
        asked, [&](duckdb::BoundColumnRefExpression&, duckdb::unique_ptr<Expression>& place) {
          place = duckdb::make_uniq<duckdb::BoundReferenceExpression>(c.type, 0U);
        });
    duckdb::DataChunk chunk;
    chunk.Initialize(duckdb::Allocator::DefaultAllocator(), {c.type});
    for (int t = 0; t < trace::kEventTypes; ++t)
      duckdb::FlatVector::GetData<uint8_t>(chunk.data[0])[t] = static_cast<uint8_t>(t);
    duckdb::FlatVector::SetNull(chunk.data[0], trace::kEventTypes, true);
    chunk.SetCardinality(trace::kEventTypes + 1);
    duckdb::ExpressionExecutor executor(context, *asked);
    duckdb::SelectionVector selection(STANDARD_VECTOR_SIZE);
    auto out = std::make_unique<TypeSet>();
    duckdb::idx_t count = executor.SelectExpression(chunk, selection);
    for (duckdb::idx_t i = 0; i < count; ++i) {
      auto t = selection.get_index(i);
      if (t == trace::kEventTypes)
        out->null = true;
      else
        out->types |= 1ull << t;
    }
    return out;
  }

  NodePtr compile(const Expression& e) const {
    if (e.GetExpressionClass() == ExpressionClass::BOUND_CONJUNCTION) {
      auto& c = e.Cast<duckdb::BoundConjunctionExpression>();
      auto out = std::make_unique<Junction>(c.GetExpressionType() == ExpressionType::CONJUNCTION_AND);
      for (auto& child : c.children) out->children.push_back(compile(*child));
      return out;
    }
    if (e.IsVolatile() || e.CanThrow()) return maybe();
    if (const SqlColumn* c = onlyColumn(e, columns); c && c->kind == Kind::Type) return types(e, *c);
    switch (e.GetExpressionClass()) {
      case ExpressionClass::BOUND_COMPARISON: {
        auto& c = e.Cast<duckdb::BoundComparisonExpression>();
        return comparison(*c.left, c.GetExpressionType(), *c.right);
      }
      case ExpressionClass::BOUND_BETWEEN: {
        auto& b = e.Cast<duckdb::BoundBetweenExpression>();
        auto out = std::make_unique<Junction>(true);
        out->children.push_back(comparison(*b.input, b.LowerComparisonType(), *b.lower));
        out->children.push_back(comparison(*b.input, b.UpperComparisonType(), *b.upper));
        return out;
      }
      case ExpressionClass::BOUND_OPERATOR:
        break;
      default:
        return maybe();
    }
    auto& o = e.Cast<duckdb::BoundOperatorExpression>();
    switch (o.GetExpressionType()) {
      case ExpressionType::COMPARE_IN: {
        auto out = std::make_unique<Junction>(false);
        for (size_t i = 1; i < o.children.size(); ++i)
          out->children.push_back(comparison(*o.children[0], ExpressionType::COMPARE_EQUAL, *o.children[i]));
        return out;
      }
      case ExpressionType::OPERATOR_IS_NULL:
        return null(*o.children[0], true);
      case ExpressionType::OPERATOR_IS_NOT_NULL:
        return null(*o.children[0], false);
      default:
        return maybe();
    }
  }
};

}  // namespace

const SqlColumn* onlyColumn(const Expression& condition, const std::vector<const SqlColumn*>& columns) {
  const SqlColumn* found = nullptr;
  bool several = false;
  duckdb::ExpressionIterator::VisitExpression<duckdb::BoundColumnRefExpression>(
      condition, [&](const duckdb::BoundColumnRefExpression& ref) {
        const SqlColumn* c = ref.binding.column_index < columns.size() ? columns[ref.binding.column_index] : nullptr;
        several = several || !c || (found && found != c);
        found = c;
      });
  return several ? nullptr : found;
}

ZoneCondition::ZoneCondition(duckdb::ClientContext& context, const Expression& condition,
                             const std::vector<const SqlColumn*>& columns, TraceSet& traces)
    : root_(Compiler{context, columns, traces}.compile(condition)) {}
ZoneCondition::~ZoneCondition() = default;

bool ZoneCondition::mayMatch(const TraceSet::BlockRef& ref) const { return root_->mayMatch(ref); }

duckdb::BaseStatistics zoneStatistics(const SqlColumn& column, std::span<const TraceSet::BlockRef> blocks) {
  bool nulls = false, values = false;
  uint64_t types = 0;
  int64_t low = INT64_MAX, high = INT64_MIN;
  double real_low = 0, real_high = 0;
  for (const TraceSet::BlockRef& ref : blocks) {
    const trace::ColumnEntry* entry = ref.block->find(column.column);
    nulls = nulls || !entry || entry->values < ref.block->rows;
    if (!entry) continue;
    if (column.kind == Kind::Type) {
      types |= ref.block->types();
    } else if (column.kind == Kind::Real) {
      double a = std::bit_cast<double>(entry->zone_low), b = std::bit_cast<double>(entry->zone_high);
      real_low = values ? std::min(real_low, a) : a;
      real_high = values ? std::max(real_high, b) : b;
    } else {
      low = std::min(low, entry->zone_low);
      high = std::max(high, entry->zone_high);
    }
    values = true;
  }
  duckdb::BaseStatistics stats = duckdb::BaseStatistics::CreateEmpty(column.type);
  if (nulls) stats.SetHasNullFast();
  if (!values) return stats;
  stats.SetHasNoNullFast();
  if (column.kind == Kind::Type) {
    if (types >> trace::kEventTypes || types == 0) types |= 1ull << (trace::kEventTypes - 1);
    types &= (1ull << trace::kEventTypes) - 1;
    duckdb::NumericStats::SetMin(stats, static_cast<uint8_t>(std::countr_zero(types)));
    duckdb::NumericStats::SetMax(stats, static_cast<uint8_t>(std::bit_width(types) - 1));
  } else if (column.kind == Kind::Real) {
    duckdb::NumericStats::SetMin(stats, real_low);
    duckdb::NumericStats::SetMax(stats, real_high);
  } else if (column.kind == Kind::Int32) {
    duckdb::NumericStats::SetMin(stats, static_cast<int32_t>(std::max<int64_t>(low, INT32_MIN)));
    duckdb::NumericStats::SetMax(stats, static_cast<int32_t>(std::min<int64_t>(high, INT32_MAX)));
  } else {
    duckdb::NumericStats::SetMin(stats, low);
    duckdb::NumericStats::SetMax(stats, high);
  }
  return stats;
}

bool zoneExcludes(const SqlColumn& column, const duckdb::TableFilter& filter, const TraceSet::BlockRef& ref) {
  if (column.column < 0 || column.kind == Kind::Str || column.kind == Kind::Launch || column.kind == Kind::Type ||
      column.kind == Kind::Text)
    return false;
  duckdb::BaseStatistics stats = zoneStatistics(column, {&ref, 1});
  const duckdb::FilterPropagateResult result = filter.CheckStatistics(stats);
  return result == duckdb::FilterPropagateResult::FILTER_ALWAYS_FALSE ||
         result == duckdb::FilterPropagateResult::FILTER_FALSE_OR_NULL;
}

}  // namespace tracesmith::query
