#include "query/trace_set.hpp"

#include <algorithm>
#include <filesystem>
#include <utf8proc_wrapper.hpp>

#include "trace/layout.hpp"

namespace tracesmith::query {
namespace {

using trace::Kind;

// Memory kept between queries.
constexpr size_t kLendBytes = 32u << 20;
constexpr size_t kLendDecoders = 16;

duckdb::LogicalType eventTypeEnum() {
  duckdb::Vector names(duckdb::LogicalType::VARCHAR, trace::kEventTypes);
  auto* values = duckdb::FlatVector::GetData<duckdb::string_t>(names);
  for (int i = 0; i < trace::kEventTypes; ++i)
    values[i] = duckdb::StringVector::AddString(names, trace::eventTypeName(static_cast<trace::EventType>(i)));
  return duckdb::LogicalType::ENUM("event_type", names, trace::kEventTypes);
}

duckdb::LogicalType sqlType(Kind kind) {
  switch (kind) {
    case Kind::Int32:
    case Kind::Launch:
      return duckdb::LogicalType::INTEGER;
    case Kind::Real:
      return duckdb::LogicalType::DOUBLE;
    case Kind::Str:
    case Kind::Text:
      return duckdb::LogicalType::VARCHAR;
    case Kind::Type:
      return eventTypeEnum();
    default:
      return duckdb::LogicalType::BIGINT;
  }
}

}  // namespace

Status TraceSet::open(const std::vector<std::string>& files, NeedBytes need, std::vector<std::string> absent) {
  need_ = std::move(need);
  absent_ = std::move(absent);
  for (const std::string& file : files) {
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(file);
    if (!reader) return reader.status();
    sources_.push_back({std::move(*reader), std::filesystem::path(file).filename().string()});
  }
  for (size_t i = 0; i < sources_.size(); ++i)  // the same name in two folders: say which
    for (size_t k = 0; k < i; ++k)
      if (std::filesystem::path(files[i]).filename() == std::filesystem::path(files[k]).filename()) {
        sources_[i].name = files[i];
        sources_[k].name = files[k];
      }
  for (const trace::TableInfo& table : trace::tables()) {
    columns_[&table] = makeColumns(table);
    auto& refs = blocks_[&table];
    for (uint32_t s = 0; s < sources_.size(); ++s)
      for (const trace::Block* block : sources_[s].reader->blocks(table)) {
        refs.push_back({s, block});
        largest_block_ = std::max(largest_block_, block->rows);
      }
  }
  return {};
}

bool TraceSet::isAbsent(const trace::TableInfo& table) const {
  return std::find(absent_.begin(), absent_.end(), table.name) != absent_.end();
}

uint64_t TraceSet::addRanges(const trace::Block& block, const std::vector<int>& columns,
                             std::vector<ByteRange>& ranges) {
  const uint64_t payload =
      block.offset + sizeof(trace::BlockHeader) + block.columns.size() * sizeof(trace::ColumnEntry);
  uint64_t bytes = 0;
  auto add = [&](const trace::ColumnEntry& entry) {
    if (entry.size == 0) return;
    ranges.push_back({payload + entry.offset, entry.size});
    bytes += entry.size;
  };
  auto addColumn = [&](int column) {
    const trace::ColumnEntry* entry = block.find(column);
    if (!entry) return;
    add(*entry);
    if (entry->flags & trace::kSharedValidity && entry->validity_index < block.columns.size())
      add(block.columns[entry->validity_index]);
  };
  for (const int column : columns) {
    addColumn(column);
    if (block.table->columns[static_cast<size_t>(column)].kind != Kind::Sum) continue;
    addColumn(column - 2);  // the two it is the sum of
    addColumn(column - 1);
  }
  return bytes;
}

void TraceSet::need(const std::vector<ByteRange>& ranges) {
  std::lock_guard lock(needing_);
  if (Status s = need_(ranges); !s) throw duckdb::IOException(s.message());
}

std::vector<SqlColumn> TraceSet::makeColumns(const trace::TableInfo& table) const {
  std::vector<SqlColumn> out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const trace::ColumnInfo& info = table.columns[c];
    auto index = static_cast<int>(c);
    if (info.kind == Kind::Launch) {
      for (int f = 0; f < trace::kLaunchFields; ++f)
        out.push_back({trace::launchFields()[static_cast<size_t>(f)].name, sqlType(info.kind), index, f, info.kind});
    } else {
      out.push_back({info.name, sqlType(info.kind), index, -1, info.kind});
    }
  }
  if (sources_.size() > 1) out.push_back({"trace", duckdb::LogicalType::VARCHAR, -1, -1, Kind::Str});
  return out;
}

const std::vector<TraceSet::BlockRef>& TraceSet::blocks(const trace::TableInfo& table) const {
  return blocks_.at(&table);
}
const std::vector<SqlColumn>& TraceSet::columns(const trace::TableInfo& table) const { return columns_.at(&table); }

Dictionary& TraceSet::dictionary(uint32_t source, uint32_t stream) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Dictionary>& out = dictionaries_[{source, stream}];
  if (out) return *out;
  Result<const trace::Strings*> strings = sources_[source].reader->strings(stream);
  if (!strings) throw duckdb::IOException(strings.status().message());
  auto made = std::make_unique<Dictionary>();
  made->strings.reserve((*strings)->size() + 2);
  for (size_t i = 0; i < (*strings)->size(); ++i) {
    std::string_view s = (*strings)->at(static_cast<int64_t>(i));
    if (!s.data()) made->missing.push_back(static_cast<uint32_t>(i));
    if (!duckdb::Utf8Proc::IsValid(s.data(), s.size())) {
      auto fixed = std::make_unique<std::string>(s);
      duckdb::Utf8Proc::MakeValid(fixed->data(), fixed->size());
      s = *fixed;
      made->repaired.push_back(std::move(fixed));
    }
    made->strings.emplace_back(s.data(), static_cast<uint32_t>(s.size()));
  }
  made->strings.resize(made->strings.size() + 2);
  out = std::move(made);
  return *out;
}

const Dictionary& TraceSet::launchDictionary(uint32_t source, uint32_t stream) {
  Dictionary& dictionary = this->dictionary(source, stream);
  std::call_once(dictionary.launch_once, [&] {
    for (auto& field : dictionary.launch) field.assign(dictionary.strings.size(), -1);
    for (size_t i = 0; i < dictionary.size(); ++i) {
      const duckdb::string_t& s = dictionary.strings[i];
      const auto shape = trace::LaunchShape::parse(std::string_view(s.GetData(), s.GetSize()));
      for (auto* field = dictionary.launch; const trace::LaunchField& f : trace::launchFields())
        (*field++)[i] = (shape.*f.value).value_or(-1);
    }
  });
  return dictionary;
}

IdRange TraceSet::idRange(const trace::TableInfo& table, int column, uint32_t source, uint32_t stream) {
  size_t strings = dictionary(source, stream).size();
  std::lock_guard lock(mutex_);
  auto [it, missing] = ranges_.try_emplace({&table, column, source, stream});
  IdRange& range = it->second;
  if (!missing) return range;
  int64_t low = INT64_MAX, high = -1;
  for (const BlockRef& ref : blocks_.at(&table)) {
    if (ref.source != source || ref.block->stream != stream) continue;
    const trace::ColumnEntry* entry = ref.block->find(column);
    if (!entry || entry->values < ref.block->rows) range.nulls = true;
    if (!entry) continue;
    low = std::min(low, entry->zone_low);
    high = std::max(high, entry->zone_high);
  }
  bool beyond = low < 0 || high >= static_cast<int64_t>(strings);
  low = std::max<int64_t>(0, std::min(low, high));
  high = std::min(high, static_cast<int64_t>(strings) - 1);
  if (high < low) low = high = 0;
  range.low = static_cast<uint32_t>(low);
  range.high = static_cast<uint32_t>(high);
  const Dictionary& names = *dictionaries_.at({source, stream});
  range.nulls = range.nulls || strings == 0 || beyond || !names.missing.empty();
  return range;
}

std::pair<int64_t, int64_t> TraceSet::idsOf(uint32_t source, uint32_t stream, const std::string& value) {
  const Dictionary& names = dictionary(source, stream);
  std::lock_guard lock(mutex_);
  auto [it, missing] = ids_.try_emplace({source, stream, value}, INT64_MAX, -1);
  if (!missing) return it->second;
  const duckdb::string_t wanted(value.data(), static_cast<uint32_t>(value.size()));
  for (size_t i = 0; i < names.size(); ++i)
    if (names.strings[i] == wanted) {
      it->second.first = std::min(it->second.first, static_cast<int64_t>(i));
      it->second.second = static_cast<int64_t>(i);
    }
  return it->second;
}

std::unique_ptr<trace::ColumnData> TraceSet::borrowColumn() {
  std::lock_guard lock(mutex_);
  if (columns_to_lend_.empty()) return std::make_unique<trace::ColumnData>();
  auto column = std::move(columns_to_lend_.back());
  columns_to_lend_.pop_back();
  return column;
}

void TraceSet::giveBack(std::unique_ptr<trace::ColumnData> column) {
  std::lock_guard lock(mutex_);
  const size_t bytes = largest_block_ * sizeof(int64_t) * (columns_to_lend_.size() + 1);
  if (bytes <= kLendBytes) columns_to_lend_.push_back(std::move(column));
}

std::unique_ptr<trace::BlockDecoder> TraceSet::borrowDecoder(uint32_t source) {
  std::lock_guard lock(mutex_);
  auto it =
      std::find_if(decoders_to_lend_.begin(), decoders_to_lend_.end(), [&](auto& d) { return d.first == source; });
  if (it == decoders_to_lend_.end()) return std::make_unique<trace::BlockDecoder>(*sources_[source].reader);
  auto decoder = std::move(it->second);
  decoders_to_lend_.erase(it);
  return decoder;
}

void TraceSet::giveBack(uint32_t source, std::unique_ptr<trace::BlockDecoder> decoder) {
  std::lock_guard lock(mutex_);
  if (decoders_to_lend_.size() < kLendDecoders) decoders_to_lend_.emplace_back(source, std::move(decoder));
}

void TraceSet::report(ScanReport scan) {
  std::lock_guard lock(mutex_);
  reports_.push_back(std::move(scan));
}

std::vector<ScanReport> TraceSet::takeReports() {
  std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

}  // namespace tracesmith::query
