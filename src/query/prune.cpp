#include "query/prune.hpp"

#include <algorithm>
#include <bit>
#include <duckdb/planner/expression/bound_between_expression.hpp>
#include <duckdb/planner/expression/bound_columnref_expression.hpp>
#include <duckdb/planner/expression/bound_comparison_expression.hpp>
#include <duckdb/planner/expression/bound_conjunction_expression.hpp>
#include <duckdb/planner/expression/bound_constant_expression.hpp>
#include <duckdb/planner/expression/bound_operator_expression.hpp>
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
    case ExpressionType::COMPARE_EQUAL: return low <= value && value <= high;
    case ExpressionType::COMPARE_NOTEQUAL: return low != value || high != value;
    case ExpressionType::COMPARE_LESSTHAN: return low < value;
    case ExpressionType::COMPARE_LESSTHANOREQUALTO: return low <= value;
    case ExpressionType::COMPARE_GREATERTHAN: return high > value;
    case ExpressionType::COMPARE_GREATERTHANOREQUALTO: return high >= value;
    default: return true;
  }
}

/// One condition and one block.
struct Pruner {
  const std::vector<const SqlColumn*>& columns;
  TraceSet& traces;
  const TraceSet::BlockRef& ref;

  const SqlColumn* column(const Expression& e) const {
    if (e.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) return nullptr;
    auto index = e.Cast<duckdb::BoundColumnRefExpression>().binding.column_index;
    return index < columns.size() ? columns[index] : nullptr;
  }

  bool stringMayMatch(const SqlColumn& c, ExpressionType op, const std::string& value) const {
    if (op != ExpressionType::COMPARE_EQUAL) return true;
    if (c.column < 0) return traces.sources()[ref.source].name == value;
    const trace::ColumnEntry* entry = ref.block->find(c.column);  // the caller made sure that there is one
    auto [low, high] = traces.idsOf(ref.source, ref.block->stream, value);
    return low <= high && entry->zone_low <= high && low <= entry->zone_high;
  }

  bool comparison(const Expression& left, ExpressionType op, const Expression& right) const {
    if (left.GetExpressionClass() == ExpressionClass::BOUND_CONSTANT && column(right))
      return comparison(right, duckdb::FlipComparisonExpression(op), left);
    const SqlColumn* c = column(left);
    if (!c || right.GetExpressionClass() != ExpressionClass::BOUND_CONSTANT) return true;
    const duckdb::Value& value = right.Cast<duckdb::BoundConstantExpression>().value;
    bool distinct = op == ExpressionType::COMPARE_DISTINCT_FROM || op == ExpressionType::COMPARE_NOT_DISTINCT_FROM;
    if (distinct || value.type() != c->type) return true;
    if (value.IsNull()) return false;
    if (c->column >= 0 && !ref.block->find(c->column)) return false;  // NULL in every row
    switch (c->kind) {
      case Kind::Launch:
      case Kind::Text: return true;
      case Kind::Str: return stringMayMatch(*c, op, duckdb::StringValue::Get(value));
      case Kind::Type: return typeMayMatch(op, value.GetValueUnsafe<uint8_t>());
      default: break;
    }
    int64_t low, high;
    if (!ref.block->zone(c->column, low, high)) return false;
    if (c->kind == Kind::Real)
      return zoneMayMatch(op, std::bit_cast<double>(low), std::bit_cast<double>(high), value.GetValueUnsafe<double>());
    int64_t number = c->kind == Kind::Int32 ? value.GetValueUnsafe<int32_t>() : value.GetValueUnsafe<int64_t>();
    return zoneMayMatch(op, low, high, number);
  }

  bool typeMayMatch(ExpressionType op, uint8_t value) const {
    uint64_t types = ref.block->types();
    // Types of a newer version read as the last one.
    if (types >> trace::kEventTypes) types |= 1ull << (trace::kEventTypes - 1);
    for (uint8_t t = 0; t < trace::kEventTypes; ++t)
      if ((types >> t & 1) && zoneMayMatch<uint8_t>(op, t, t, value)) return true;
    return false;
  }

  bool isNull(const Expression& child, bool wanted) const {
    const SqlColumn* c = column(child);
    if (!c || c->kind == Kind::Launch || c->kind == Kind::Str) return true;  // a string id may lack its string
    const trace::ColumnEntry* entry = ref.block->find(c->column);
    return wanted ? !entry || entry->values < ref.block->rows || c->kind == Kind::Sum : entry != nullptr;
  }

  bool mayMatch(const Expression& e) const {
    switch (e.GetExpressionClass()) {
      case ExpressionClass::BOUND_COMPARISON: {
        auto& c = e.Cast<duckdb::BoundComparisonExpression>();
        return comparison(*c.left, c.GetExpressionType(), *c.right);
      }
      case ExpressionClass::BOUND_BETWEEN: {
        auto& b = e.Cast<duckdb::BoundBetweenExpression>();
        return comparison(*b.input, b.LowerComparisonType(), *b.lower) && comparison(*b.input, b.UpperComparisonType(), *b.upper);
      }
      case ExpressionClass::BOUND_CONJUNCTION: {
        auto& c = e.Cast<duckdb::BoundConjunctionExpression>();
        bool all = c.GetExpressionType() == ExpressionType::CONJUNCTION_AND;
        for (auto& child : c.children)
          if (mayMatch(*child) != all) return !all;
        return all;
      }
      case ExpressionClass::BOUND_OPERATOR: {
        auto& o = e.Cast<duckdb::BoundOperatorExpression>();
        switch (o.GetExpressionType()) {
          case ExpressionType::COMPARE_IN:
            for (size_t i = 1; i < o.children.size(); ++i)
              if (comparison(*o.children[0], ExpressionType::COMPARE_EQUAL, *o.children[i])) return true;
            return false;
          case ExpressionType::OPERATOR_IS_NULL: return isNull(*o.children[0], true);
          case ExpressionType::OPERATOR_IS_NOT_NULL: return isNull(*o.children[0], false);
          default: return true;
        }
      }
      default: return true;
    }
  }
};

}  // namespace

bool mayMatch(const Expression& condition, const std::vector<const SqlColumn*>& columns, TraceSet& traces,
              const TraceSet::BlockRef& ref) {
  return Pruner{columns, traces, ref}.mayMatch(condition);
}

duckdb::BaseStatistics zoneStatistics(const SqlColumn& column, std::span<const TraceSet::BlockRef> blocks) {
  bool nulls = false, values = false;
  uint64_t types = 0;
  int64_t low = INT64_MAX, high = INT64_MIN;
  double real_low = 0, real_high = 0;
  for (const TraceSet::BlockRef& ref : blocks) {
    const trace::ColumnEntry* entry = ref.block->find(column.column);
    nulls = nulls || !entry || entry->values < ref.block->rows || column.kind == Kind::Sum;
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

}  // namespace tracesmith::query
