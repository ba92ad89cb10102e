#include "trace/import/database_source.hpp"

#include <algorithm>
#include <cstring>

#include "base/count.hpp"

namespace tracesmith::trace {
namespace {

constexpr size_t kPiece = 1u << 20;

class DatabaseSource : public ByteSource {
 public:
  DatabaseSource(const Database& database, DatabaseTrace trace, uint64_t file_bytes, DatabaseNotes& notes)
      : database_(database), trace_(std::move(trace)), file_bytes_(file_bytes), notes_(notes) {}

  Status read(char* buffer, size_t size, size_t& got) override {
    if (at_ == text_.size()) {
      text_.clear();
      at_ = 0;
      TS_TRY(fill());
    }
    got = std::min(size, text_.size() - at_);
    std::memcpy(buffer, text_.data() + at_, got);
    at_ += got;
    return {};
  }

  /// How far it is, by its parts.
  uint64_t consumed() const override {
    return trace_.parts.empty() ? file_bytes_ : file_bytes_ * part_ / trace_.parts.size();
  }

 private:
  Status fill() {
    if (!begun_) {
      begun_ = true;
      std::string header;
      JsonWriter json(header);
      json.beginObject();
      trace_.header(json);
      json.key("traceEvents").beginArray();
      text_ = std::move(header);
    }
    while (text_.size() < kPiece && !ended_) {
      if (!rows_ && part_ == trace_.parts.size()) {
        ended_ = true;
        text_ += "\n]}\n";
        break;
      }
      TS_TRY(rows());
    }
    return {};
  }

  /// Some of the part.
  Status rows() {
    const DatabasePart& part = trace_.parts[part_];
    if (!rows_) {
      Result<Rows> rows = database_.ask(part.sql);
      if (!rows) return rows.status();
      rows_ = std::make_unique<Rows>(std::move(*rows));
    }
    while (text_.size() < kPiece) {
      if (!rows_->next()) {
        TS_TRY(rows_->status());
        rows_.reset();
        ++part_;
        return {};
      }
      event_.clear();
      JsonWriter json(event_);
      json.beginObject();
      if (!part.write(*rows_, json)) {
        notes_.losses.add("unreadable row", 1, part.what);
        continue;
      }
      json.endObject();
      text_ += first_ ? "\n" : ",\n";
      text_ += event_;
      first_ = false;
    }
    return {};
  }

  const Database& database_;
  DatabaseTrace trace_;
  uint64_t file_bytes_;
  DatabaseNotes& notes_;
  std::unique_ptr<Rows> rows_;
  std::string text_, event_;
  size_t at_ = 0, part_ = 0;
  bool begun_ = false, ended_ = false, first_ = true;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> databaseSource(const Database& database, uint64_t file_bytes,
                                                   DatabaseNotes& notes) {
  const bool rocpd = std::any_of(database.tables().begin(), database.tables().end(),
                                 [](const auto& table) { return table.first.starts_with("rocpd_"); });
  const bool nsys = std::any_of(database.tables().begin(), database.tables().end(), [](const auto& table) {
    return table.first.starts_with("CUPTI_ACTIVITY_KIND_") || table.first == "NVTX_EVENTS";
  });
  if (!rocpd && !nsys)
    return Status::invalid(database.path() +
                           " is an SQLite database, but holds no kernels or ranges of Nsight Systems or rocprofv3");
  DatabaseTrace trace = rocpd ? rocpdTrace(database, notes) : nsysTrace(database, notes);
  return std::unique_ptr<ByteSource>(new DatabaseSource(database, std::move(trace), file_bytes, notes));
}

void leaveOut(const Database& database, const std::string& table, DatabaseNotes& notes) {
  const std::optional<int64_t> rows = database.number("SELECT count(*) FROM " + identifier(table));
  if (rows && *rows > 0)
    notes.warnings.push_back(counted(static_cast<uint64_t>(*rows), "row") + " of " + table + " in " + database.path() +
                             (*rows == 1 ? " has" : " have") + " no place in a trace");
}

bool writeTimes(JsonWriter& json, int64_t start_ns, int64_t end_ns) {
  if (start_ns < 0 || end_ns < start_ns) return false;
  auto micros = [](int64_t ns) {
    std::string text = std::to_string(ns / 1000) + ".";
    const std::string rest = std::to_string(1000 + ns % 1000);
    return text + rest.substr(1);
  };
  json.key("ts").raw(micros(start_ns)).key("dur").raw(micros(end_ns - start_ns));
  return true;
}

std::string copyName(std::string_view from, std::string_view to) {
  return "Memcpy " + std::string(from) + "to" + std::string(to);
}

}  // namespace tracesmith::trace
