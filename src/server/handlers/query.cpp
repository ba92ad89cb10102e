// SQL over HTTP: one reading statement, limited in rows and time, its rows sent as they come.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"

namespace tracesmith::server {
namespace {

constexpr double kMostRows = 1'000'000, kMostSeconds = 600;
constexpr size_t kHoldBytes = 1 << 20;  // until then a failure is still an answer of its own

/// Interrupts a query when its time is over.
class Timer {
 public:
  Timer(query::Engine& engine, double seconds)
      : thread_([this, &engine, seconds] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return done_; })) return;
          over_ = true;
          engine.interrupt();
        }) {}
  ~Timer() { stop(); }
  void stop() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  bool over() const { return over_; }

 private:
  std::mutex mutex_;  // guards done_
  std::condition_variable changed_;
  bool done_ = false;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class QueryHandlers final : public Handlers {
 public:
  explicit QueryHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer query(const Request& r);

  const Sources& sources_;
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

  // A small result is held back whole: a failure in its midst then has its own status. The rest of a large one follows
  // as it comes.
  struct State {
    std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    std::string held;
    bool done = false, gone = false, large = false;
    Status status;
    std::thread thread;
    ~State() {
      if (thread.joinable()) thread.join();
    }
  };
  auto state = std::make_shared<State>();
  const bool json = format == "json";
  const query::Format form = json              ? query::Format::kRows
                             : format == "csv" ? query::Format::kCsv
                                               : query::Format::kArrow;
  state->thread =
      std::thread([s = state.get(), trace, sql, json, form, max_rows, timeout_s, load = sources_.options.load_engine] {
        query::RunReport report;
        std::vector<std::string> notes;
        auto write = [s](std::string_view bytes) -> Status {
          std::unique_lock lock(s->mutex);
          s->changed.wait(lock, [&] { return s->held.size() < 4 * kHoldBytes || s->gone; });
          if (s->gone) return Status::io("the client disconnected");
          s->held += bytes;
          s->changed.notify_all();
          return {};
        };
        Status status = trace->withEngine(load, [&](query::Engine& engine) -> Status {
          Timer timer(engine, timeout_s);
          query::RunOptions options;
          options.format = form;
          options.limit = static_cast<uint64_t>(max_rows);
          options.write = write;
          if (json) TS_TRY(write("{"));
          Status result = engine.run(sql, options, report);
          timer.stop();
          notes = engine.notes();
          for (std::string& d : engine.damage()) notes.push_back(std::move(d));
          if (!timer.over()) return result;
          return Status::timeout("the query took longer than its " + humanNs(timeout_s * 1e9) +
                                 "; raise timeout_s to allow more");
        });
        std::string tail;
        if (status && json) {
          tail = model::toJson(model::QueryReport{report.rows, report.truncated, report.seconds, notes});
          tail[0] = ',';  // the object began with the rows
        }
        std::lock_guard lock(s->mutex);
        s->held += tail;
        s->status = status;
        s->done = true;
        s->changed.notify_all();
      });
  {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->done || state->held.size() >= kHoldBytes; });
    if (state->done && !state->status) {
      return Answer::error(state->status);
    }
  }
  Answer answer;
  answer.type = json              ? "application/json"
                : format == "csv" ? "text/csv; charset=utf-8"
                                  : "application/vnd.apache.arrow.stream";
  answer.headers.emplace_back("Cache-Control", "no-store");
  struct Leave {  // however the sending ends, the query does not wait for it
    explicit Leave(std::shared_ptr<State> of) : state(std::move(of)) {}
    std::shared_ptr<State> state;
    ~Leave() {
      {
        std::lock_guard lock(state->mutex);
        state->gone = true;
      }
      state->changed.notify_all();
    }
  };
  answer.stream = [leave = std::make_shared<Leave>(state)](const Sink& sink) {
    State& s = *leave->state;
    for (;;) {
      std::string piece;
      bool done;
      {
        std::unique_lock lock(s.mutex);
        s.changed.wait(lock, [&] { return s.done || !s.held.empty(); });
        piece.swap(s.held);
        done = s.done;
        if (done && !s.status) return false;  // cut: half a result must not look whole
        s.changed.notify_all();
      }
      if (!piece.empty() && !sink(piece)) return false;
      if (done) return true;
    }
  };
  return answer;
}

}  // namespace

std::unique_ptr<Handlers> makeQueryHandlers(const Sources& sources) { return std::make_unique<QueryHandlers>(sources); }

}  // namespace tracesmith::server
