// SQL over HTTP: one reading statement, limited in rows and time, its rows sent as they come.
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <mutex>

#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"
#include "server/sources/query_process.hpp"

namespace tracesmith::server {
namespace {

constexpr double kMostRows = 1'000'000, kMostSeconds = 600;
constexpr size_t kHoldBytes = 1 << 20;  // until then a failure is still an answer of its own

/// Queries that run at a time, and how long one more waits for them.
constexpr int kAtOnce = 2;
constexpr auto kPatience = std::chrono::seconds(10);

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

/// A query that runs, with all it needs until it ends.
struct Running {
  Running(Places& of, TracePtr on) : places(of), trace(std::move(on)) {}
  ~Running() {
    process.reset();
    places.giveBack();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Places& places;
  const TracePtr trace;  // its file may be temporary
  std::unique_ptr<QueryProcess> process;
};

/// Waits for a place; false: there was none in time, or the client went away.
bool waitFor(Places& places, int client) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
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

  if (!waitFor(places_, r.socket))
    return Answer::error(Status::busy("other queries are still running: try again when they have ended"));
  auto running = std::make_shared<Running>(places_, trace);  // shared: a std::function can be copied
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
  if (!process) return Answer::error(process.status());
  running->process = std::move(*process);

  // A small result is held back whole: a failure in its midst then has its own status. The rest of a large one follows
  // as it comes.
  Answer answer;
  bool more = true;
  while (more && answer.body.size() < kHoldBytes)
    if (Status s = running->process->read(answer.body, more); !s) return Answer::error(s);
  answer.type = format == "json"  ? "application/json"
                : format == "csv" ? "text/csv; charset=utf-8"
                                  : "application/vnd.apache.arrow.stream";
  answer.headers.emplace_back("Cache-Control", "no-store");
  if (!more) return answer;
  answer.stream = [running, piece = std::move(answer.body)](const Sink& sink) mutable {
    for (bool go_on = true; go_on;) {
      if (!piece.empty() && !sink(piece)) return false;
      piece.clear();
      if (!running->process->read(piece, go_on)) return false;  // cut: half a result must not look whole
    }
    return true;
  };
  return answer;
}

}  // namespace

std::unique_ptr<Handlers> makeQueryHandlers(const Sources& sources) { return std::make_unique<QueryHandlers>(sources); }

}  // namespace tracesmith::server
