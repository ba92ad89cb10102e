// The engine on DuckDB, and the one place where DuckDB's exceptions end.
#include <unistd.h>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <duckdb.hpp>
#include <duckdb/main/client_context.hpp>
#include <duckdb/main/pending_query_result.hpp>
#include <duckdb/parser/parsed_data/copy_info.hpp>
#include <duckdb/parser/statement/copy_statement.hpp>
#include <duckdb/parser/statement/select_statement.hpp>
#include <mutex>

#include "base/file.hpp"
#include "base/interface_versions.hpp"
#include "base/library.hpp"
#include "base/temporary_folder.hpp"
#include "base/text.hpp"
#include "model/communication.hpp"
#include "model/operation.hpp"
#include "query/arrow_stream.hpp"
#include "query/block_scan.hpp"
#include "query/engine.hpp"
#include "query/functions.hpp"
#include "query/live_tables.hpp"
#include "query/output.hpp"
#include "query/prompt.hpp"
#include "query/python_views.hpp"
#include "query/statements.hpp"
#include "query/trace_set.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::query {
namespace {

// The headers this was compiled with. DuckDB's C++ interface is exact to the version.
constexpr const char* kDuckDbVersion = "v1.4.4";
// Rows of a Parquet row group: DuckDB's own default, enough for its readers to skip and small enough to buffer.
constexpr int64_t kRowGroupRows = 122880;

Status duckError(const duckdb::ErrorData& error) {
  if (error.Type() == duckdb::ExceptionType::INTERRUPT) return Status::cancelled("the query was cancelled");
  if (error.Type() == duckdb::ExceptionType::OUT_OF_MEMORY) {
    std::string text = error.RawMessage().substr(0, error.RawMessage().find('\n'));
    if (text.ends_with('.')) text.pop_back();
    return Status::exhausted("the query needs more than it may take: " + text);
  }
  if (std::string text = missingFunction(error); !text.empty()) return Status::invalid(text);
  return Status::invalid(error.Message());
}

/// Runs `body`; what it throws becomes a Status.
template <typename Body>
Status guarded(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::exhausted("the query needs more memory than it may take");
  } catch (const std::exception& error) {
    return duckError(duckdb::ErrorData(error));
  } catch (...) {
    return Status::invalid("the query failed for an unknown reason");
  }
}

/// A time of a node on the reference clock, as trace::readClocks() has it: of a node's models those that collectives
/// refined, or those with a known error, or all; of these the one in force then, or the first.
constexpr const char* kReferenceMacro =
    "CREATE MACRO reference_ts(at_node, at_ts) AS coalesce("
    "(SELECT arg_max(at_ts + c.offset_ns + round(coalesce(c.drift_ppm, 0) * (at_ts - c.ts_from) / 1e6)::BIGINT, "
    "(CASE WHEN c.method = 'collectives' THEN 2 WHEN c.bound_ns IS NOT NULL THEN 1 ELSE 0 END, c.ts_from <= at_ts, "
    "CASE WHEN c.ts_from <= at_ts THEN c.ts_from ELSE -c.ts_from END)) "
    "FROM clocks c WHERE c.node = at_node AND c.ts_from IS NOT NULL AND c.offset_ns IS NOT NULL), at_ts)";

std::string listOf(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return out;
}

/// The selection as SQL; empty: everything.
std::string conditionOf(const trace::TableInfo& table, const trace::Selection& s) {
  std::vector<std::string> parts;
  if (table.find("ts") >= 0) {
    if (s.to != INT64_MAX) parts.push_back("ts < " + std::to_string(s.to));
    if (s.from != INT64_MIN) {
      std::string from = std::to_string(s.from);
      parts.push_back(table.find("ts_end") < 0 ? "ts >= " + from : "(ts >= " + from + " OR ts_end >= " + from + ")");
    }
  }
  if (!s.ranks.empty() && table.find("rank") >= 0) parts.push_back("rank IN (" + listOf(s.ranks) + ")");
  if (!s.devices.empty() && table.find("device") >= 0) parts.push_back("device IN (" + listOf(s.devices) + ")");
  if (s.types != ~0ull && &table == &trace::tableOf<trace::EventRow>()) {
    std::string types;
    for (int t = 0; t < trace::kEventTypes; ++t)
      if (s.types >> t & 1)
        types +=
            (types.empty() ? "'" : ", '") + std::string(trace::eventTypeName(static_cast<trace::EventType>(t))) + "'";
    parts.push_back(types.empty() ? "false" : "type IN (" + types + ")");
  }
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? " WHERE " : " AND ") + part;
  return out;
}

bool setMemory(duckdb::DBConfig& config, const std::string& memory) {
  try {
    config.SetOptionByName("memory_limit", duckdb::Value(memory));
    return true;
  } catch (const duckdb::Exception&) {
    return false;
  }
}

/// What a connection needs, in the order in which it must go.
struct Database {
  TemporaryFolder spill;
  std::shared_ptr<TraceSet> traces;  // shared with the table function, which DuckDB may keep
  std::unique_ptr<duckdb::DuckDB> duck;
};

class DuckEngine : public Engine {
 public:
  ~DuckEngine() override { connection_.reset(); }

  Status open(const std::vector<std::string>& files, const EngineOptions& options) override {
    return guarded([&]() -> Status {
      database_ = std::make_shared<Database>();
      traces_ = database_->traces = std::make_shared<TraceSet>();
      TS_TRY(traces_->open(files, options.need, options.absent));
      if (options.spill.empty()) {
        Result<TemporaryFolder> folder = TemporaryFolder::create();
        if (!folder) return folder.status();
        database_->spill = std::move(*folder);
      }
      duckdb::DBConfig config;
      config.options.autoinstall_known_extensions = false;
      config.options.autoload_known_extensions = false;
      config.options.temporary_directory = options.spill.empty() ? database_->spill.path() : options.spill;
      std::string memory = options.memory;
      if (memory.empty())
        memory = std::to_string(static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 2) +
                 "B";
      if (!setMemory(config, memory))
        return Status::invalid("'" + memory + "' is not an amount of memory: write it like 2GB or 500MB");
      if (options.threads > 0) config.SetOptionByName("threads", duckdb::Value::BIGINT(options.threads));
      database_->duck = std::make_unique<duckdb::DuckDB>(nullptr, &config);
      connection_ = std::make_unique<duckdb::Connection>(*database_->duck);
      if (options.spill_bytes > 0)
        TS_TRY(setUp("SET max_temp_directory_size = '" + std::to_string(options.spill_bytes) + "B'"));
      registerTables(*connection_, traces_);
      // Of a row of `collectives`, over the rank's own time: waiting for others is in it.
      for (const std::string& macro : model::bandwidthMacros()) TS_TRY(setUp(macro));
      TS_TRY(setUp(model::communicationMacro()));
      TS_TRY(setUp(kReferenceMacro));
      makePythonViews(*connection_, traces_->sources().size() > 1);
      if (options.live) registerLiveTables(*connection_, options.live);
      // From here on nobody reaches another file, another setting or another extension.
      removeFunctions(*connection_);
      TS_TRY(setUp("SET allow_community_extensions = false"));
      TS_TRY(setUp("SET enable_external_access = false"));
      return setUp("SET lock_configuration = true");
    });
  }

  Status run(const std::string& sql, const RunOptions& options, RunReport& report) override {
    auto start = std::chrono::steady_clock::now();
    Status status = guarded([&]() -> Status {
      traces_->takeReports();
      duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>> statements;
      TS_TRY(parseReadOnly(*connection_, sql, statements));
      if (options.format == Format::kParquet) return runToParquet(statements, options.parquet, report);
      if ((options.format == Format::kRows || options.format == Format::kArrow) && statements.size() != 1)
        return Status::invalid("give one statement at a time");
      for (auto& statement : statements) TS_TRY(runOne(std::move(statement), options, report));
      return {};
    });
    report.scans = traces_->takeReports();
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return status;
  }

  Status stream(const std::string& sql, ArrowArrayStream* out) override {
    return guarded([&]() -> Status {
      traces_->takeReports();  // nobody asks for those of streams
      // A connection can have one stream at a time.
      struct Kept {
        std::shared_ptr<Database> database;
        std::shared_ptr<duckdb::Connection> connection;
      };
      auto kept = std::make_shared<Kept>();
      kept->database = database_;
      kept->connection = std::make_shared<duckdb::Connection>(*database_->duck);
      duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>> statements;
      TS_TRY(parseReadOnly(*kept->connection, sql, statements));
      if (statements.size() != 1) return Status::invalid("give one statement at a time");
      {
        std::lock_guard lock(streams_mutex_);
        std::erase_if(streams_, [](const auto& s) { return s.expired(); });
        streams_.push_back(kept->connection);
      }
      duckdb::unique_ptr<duckdb::QueryResult> result;
      TS_TRY(execute(*kept->connection, std::move(statements[0]), result));
      makeArrowStream(std::move(result), std::move(kept), out);
      return {};
    });
  }

  void interrupt() override {
    if (connection_) connection_->context->Interrupt();
    std::lock_guard lock(streams_mutex_);
    for (const auto& stream : streams_)
      if (auto connection = stream.lock()) connection->context->Interrupt();
  }

  Status exportParquet(const std::string& name, const trace::Selection& selection, const std::string& out) override {
    const trace::TableInfo* table = trace::findTable(name);
    if (!table) return Status::notFound("traces have no table '" + name + "'");
    RunOptions options;
    options.format = Format::kParquet;
    options.parquet = out;
    RunReport report;
    return run("SELECT * FROM " + name + conditionOf(*table, selection), options, report);
  }

  std::vector<std::string> damage() const override {
    std::vector<std::string> out;
    for (const auto& source : traces_->sources())
      if (std::string s = source.reader->damageSummary(); !s.empty()) out.push_back(s);
    return out;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out;
    for (const auto& source : traces_->sources()) {
      uint64_t lost = 0;
      trace::Scan scan(*source.reader, trace::tableOf<trace::LossRow>(), {}, {trace::losses::count});
      while (scan.next())
        for (uint32_t row : scan.rows()) {
          int64_t count = trace::slotAt(scan.column(trace::losses::count), trace::Kind::Int, row);
          lost += count == trace::kNull ? 1 : static_cast<uint64_t>(std::max<int64_t>(count, 0));
        }
      if (lost > 0)
        out.push_back(source.name + " lost " + humanCount(lost) + (lost == 1 ? " record" : " records") +
                      ": see the table losses");
      if (trace::isSimulated(*source.reader)) out.push_back(source.name + " contains simulated data");
    }
    return out;
  }

  void prompt(const std::function<void(const std::string&)>& statement) override {
    Status status = guarded([&]() -> Status {
      runPrompt(*traces_, statement);
      return {};
    });
    (void)status;  // the prompt ends, whatever it was
  }

 private:
  Status setUp(const std::string& sql) {
    auto result = connection_->Query(sql);
    return result->HasError() ? duckError(result->GetErrorObject()) : Status();
  }

  static Status execute(duckdb::Connection& connection, duckdb::unique_ptr<duckdb::SQLStatement> statement,
                        duckdb::unique_ptr<duckdb::QueryResult>& result) {
    auto pending = connection.context->PendingQuery(std::move(statement), true);
    if (pending->HasError()) return duckError(pending->GetErrorObject());
    result = pending->Execute();
    return result->HasError() ? duckError(result->GetErrorObject()) : Status();
  }

  static Status fetch(duckdb::QueryResult& result, duckdb::unique_ptr<duckdb::DataChunk>& chunk) {
    duckdb::ErrorData error;
    const bool fetched = result.TryFetch(chunk, error);
    if (result.HasError()) return duckError(result.GetErrorObject());  // of rows in the midst: `error` has no text
    return fetched ? Status() : duckError(error);
  }

  Status runOne(duckdb::unique_ptr<duckdb::SQLStatement> statement, const RunOptions& options, RunReport& report) {
    duckdb::unique_ptr<duckdb::QueryResult> result;
    TS_TRY(execute(*connection_, std::move(statement), result));
    std::unique_ptr<ResultWriter> writer = makeWriter(options, result->names, result->types);
    for (;;) {
      duckdb::unique_ptr<duckdb::DataChunk> chunk;
      TS_TRY(fetch(*result, chunk));
      if (!chunk || chunk->size() == 0) break;
      if (options.limit > 0 && report.rows + chunk->size() > options.limit) {
        report.truncated = true;
        chunk->SetCardinality(options.limit - report.rows);
      }
      report.rows += chunk->size();
      TS_TRY(writer->chunk(*chunk));
      if (report.truncated) break;
    }
    return writer->end();
  }

  /// COPY by our own hand: the statement is a checked SELECT, and the one file it may write is made reachable for it.
  Status runToParquet(duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>>& statements, const std::string& path,
                      RunReport& report) {
    if (statements.size() != 1 || statements[0]->type != duckdb::StatementType::SELECT_STATEMENT)
      return Status::invalid("Parquet output needs exactly one SELECT");
    Result<OutputFile> output = OutputFile::create(path);
    if (!output) return output.status();
    const std::string work = output->workPath().empty() ? path : output->workPath();
    auto copy = duckdb::make_uniq<duckdb::CopyStatement>();
    copy->info->select_statement = std::move(statements[0]->Cast<duckdb::SelectStatement>().node);
    copy->info->is_from = false;
    copy->info->file_path = work;
    copy->info->format = "parquet";
    copy->info->is_format_auto_detected = false;
    copy->info->options["compression"] = {duckdb::Value("zstd")};
    copy->info->options["parquet_version"] = {duckdb::Value("v2")};
    copy->info->options["row_group_size"] = {duckdb::Value::BIGINT(kRowGroupRows)};
    copy->info->options["use_tmp_file"] = {duckdb::Value::BOOLEAN(false)};
    duckdb::DBConfig& config = duckdb::DBConfig::GetConfig(*connection_->context);
    config.AddAllowedPath(work);
    duckdb::unique_ptr<duckdb::QueryResult> result;
    Status status = execute(*connection_, std::move(copy), result);
    duckdb::unique_ptr<duckdb::DataChunk> chunk;
    if (status.ok()) status = fetch(*result, chunk);
    config.options.allowed_paths.clear();
    TS_TRY(status);
    if (chunk && chunk->size() > 0) report.rows += static_cast<uint64_t>(chunk->GetValue(0, 0).GetValue<int64_t>());
    result.reset();
    return output->commit();
  }

  std::shared_ptr<Database> database_;  // shared with streams, which may outlive this
  std::shared_ptr<TraceSet> traces_;    // the database's
  std::unique_ptr<duckdb::Connection> connection_;
  std::mutex streams_mutex_;  // guards what follows
  std::vector<std::weak_ptr<duckdb::Connection>> streams_;
};

}  // namespace

}  // namespace tracesmith::query

extern "C" __attribute__((visibility("default"))) tracesmith::query::Engine* tracesmithCreateQueryEngine(
    const char* version, const char** why) {
  using namespace tracesmith::query;
  if (std::strcmp(version, tracesmith::kQueryInterface) != 0) {
    *why = tracesmith::kOtherVersion;
    return nullptr;
  }
  try {
    if (std::strcmp(duckdb::DuckDB::LibraryVersion(), kDuckDbVersion) != 0) {
      *why = "libduckdb.so is not version 1.4.4: put the one that came with tracesmith next to libtracesmith_query.so";
      return nullptr;
    }
    return new DuckEngine();
  } catch (...) {
    *why = "there is not enough memory for it";
    return nullptr;
  }
}
