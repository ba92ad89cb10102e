// SQL over HTTP: one reading statement, limited in rows and time. Its result is sent when it is whole: whatever goes
// wrong has an answer of its own.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"
#include "server/sources/query_process.hpp"

namespace tracesmith::server {
namespace {

constexpr double kMostRows = 1'000'000, kMostSeconds = 600;
constexpr size_t kPieceBytes = 1 << 16;

/// Queries that run at a time, and how long one more waits for them, unless its own time is shorter.
constexpr int kAtOnce = 2;
constexpr double kPatienceS = 10;

/// Places for queries.
class Places {
 public:
  bool take() {
    std::lock_guard lock(mutex_);
    if (taken_ == kAtOnce) return false;
    ++taken_;
    return true;
  }
  void giveBack() {
    std::lock_guard lock(mutex_);
    --taken_;
  }

 private:
  std::mutex mutex_;  // guards taken_
  int taken_ = 0;
};

/// A place that was taken.
class Place {
 public:
  explicit Place(Places& places) : places_(places) {}
  ~Place() { places_.giveBack(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  Places& places_;
};

/// Waits for a place; false: there was none in time, or the client went away.
bool waitFor(Places& places, int client, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!places.take()) {
    pollfd gone{client, POLLRDHUP, 0};
    if (::poll(&gone, 1, 20) > 0 || std::chrono::steady_clock::now() > until) return false;
  }
  return true;
}

class QueryHandlers final : public Handlers {
 public:
  explicit QueryHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer query(const Request& r);

  const Sources& sources_;
  Places places_;
};

std::vector<Route> QueryHandlers::routes() {
  return {
      {"POST",
       "/api/v1/query",
       kViewer,
       "Run one SQL statement that reads",
       {{"sql", "string", true, "DuckDB's dialect"},
        {"trace", "string", false, "id of a session"},
        {"format", "string", false, "json, csv or arrow"},
        {"max_rows", "number", false, "10000"},
        {"timeout_s", "number", false, "30"}},
       bind(this, &QueryHandlers::query)},
  };
}

Answer QueryHandlers::query(const Request& r) {
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  std::string sql, id = sources_.cluster ? "" : "file", format = "json";
  double max_rows = 10000, timeout_s = 30;
  for (Status s :
       {fields->text("sql", sql), fields->text("trace", id), fields->text("format", format),
        fields->number("max_rows", 1, kMostRows, max_rows), fields->number("timeout_s", 0.01, kMostSeconds, timeout_s)})
    if (!s) return Answer::error(s);
  if (sql.empty()) return Answer::error(400, "no statement given: set sql");
  if (format != "json" && format != "csv" && format != "arrow")
    return Answer::error(400, "'format' must be json, csv or arrow");
  if (id.empty()) return Answer::error(400, "no session given: set trace to its id");
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, id, instead);
  if (!trace) return instead;

  if (!waitFor(places_, r.socket, std::min(kPatienceS, timeout_s)))
    return Answer::error(Status::busy("other queries are still running: try again when they have ended"));
  Result<QueryResult> result = [&]() -> Result<QueryResult> {
    const Place place(places_);  // until it has ended, however long the client takes to read
    QueryProcess::Options options;
    options.program = sources_.options.program;
    options.trace = trace->path();
    options.sql = sql;
    options.format = format;
    options.max_rows = static_cast<uint64_t>(max_rows);
    options.seconds = timeout_s;
    options.folder = sources_.cluster ? std::filesystem::path(trace->path()).parent_path().string() : "";
    options.client = r.socket;
    Result<std::unique_ptr<QueryProcess>> process = QueryProcess::start(options);
    if (!process) return process.status();
    return (*process)->result();
  }();
  if (!result) return Answer::error(result.status());

  Answer answer;
  answer.type = format == "json"  ? "application/json"
                : format == "csv" ? "text/csv; charset=utf-8"
                                  : "application/vnd.apache.arrow.stream";
  answer.headers.emplace_back("Cache-Control", "no-store");
  answer.headers.emplace_back("X-Row-Count", std::to_string(result->rows));
  answer.headers.emplace_back("X-Truncated", result->truncated ? "true" : "false");
  answer.body = std::move(result->body);
  if (!result->file.isOpen()) return answer;
  auto file = std::make_shared<File>(std::move(result->file));  // shared: a std::function can be copied
  answer.stream = [file](const Sink& sink) {
    std::string piece(kPieceBytes, 0);
    for (size_t got = 1; got > 0;) {
      if (!file->readNext(piece.data(), piece.size(), got)) return false;
      if (got > 0 && !sink(std::string_view(piece).substr(0, got))) return false;
    }
    return true;
  };
  return answer;
}

}  // namespace

std::unique_ptr<Handlers> makeQueryHandlers(const Sources& sources) { return std::make_unique<QueryHandlers>(sources); }

}  // namespace tracesmith::server
