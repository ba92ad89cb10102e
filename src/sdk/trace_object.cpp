#include "sdk/trace_object.hpp"

#include <atomic>

#include "base/interface_versions.hpp"
#include "base/library.hpp"
#include "query/engine.hpp"
#include "sdk/bind.hpp"
#include "sdk/structs.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/analysis/diff.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::sdk {
namespace {

/// Methods are called one at a time; interrupt() from any thread.
class TraceFile final : public Object {
 public:
  static Result<std::unique_ptr<Object>> open(std::string_view json) {
    simdjson::dom::parser parser;
    Json parsed;
    auto trace = std::make_unique<TraceFile>();
    TS_TRY(parse(parser, json, parsed));
    TS_TRY(read(parsed, trace->config_));
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(trace->config_.path);
    if (!reader) return reader.status();
    trace->reader_ = std::move(*reader);
    return std::unique_ptr<Object>(std::move(trace));
  }

  Result<std::string> call(const std::string& method, std::string_view arguments) override {
    std::string out;
    JsonWriter w(out);
    TS_TRY(methods().call(*this, method, arguments, w));
    return out;
  }

  Status query(const std::string& sql, ArrowArrayStream* out) override {
    if (!engine_) {
      Result<query::Engine*> loaded = loadInterface<query::Engine>(
          {"SQL", "libtracesmith_query.so", "tracesmithCreateQueryEngine", kQueryInterface});
      if (!loaded) return loaded.status();
      std::unique_ptr<query::Engine> engine(*loaded);
      query::EngineOptions options;
      options.memory = config_.memory;
      options.threads = config_.threads;
      TS_TRY(engine->open({config_.path}, options));
      engine_ = std::move(engine);
      running_ = engine_.get();
    }
    return engine_->stream(sql, out);
  }

  void interrupt() override {
    if (query::Engine* engine = running_) engine->interrupt();
  }

  static const Methods<TraceFile>& methods() {
    static const auto* list = [] {
      auto* m = new Methods<TraceFile>;
      m->add("analyze", &TraceFile::analyze).add("diff", &TraceFile::diff);
      return m;
    }();
    return *list;
  }

 private:
  Result<Raw> analyze(const AnalyzeConfig& config) {
    analysis::AnalyzeOptions options;
    options.threads = static_cast<size_t>(config_.threads);
    options.comm_rules = config.comm_rules;
    Result<analysis::Analysis> result = analysis::analyze(*reader_, options);
    if (!result) return result.status();
    return Raw{analysis::toJson(*result, config_.path)};
  }

  Result<Raw> diff(const std::string& other, const DiffConfig& config) {
    Result<std::unique_ptr<trace::Reader>> after = trace::Reader::open(other);
    if (!after) return after.status();
    analysis::DiffOptions options;
    options.threads = static_cast<size_t>(config_.threads);
    options.comm_rules = config.comm_rules;
    options.rank = config.rank.value_or(trace::kNull);
    options.step = config.step.value_or(trace::kNull);
    Result<analysis::Diff> result = analysis::diff(*reader_, **after, options);
    if (!result) return result.status();
    return Raw{analysis::toJson(*result, config_.path, other)};
  }

  TraceConfig config_;
  std::unique_ptr<trace::Reader> reader_;
  std::unique_ptr<query::Engine> engine_;  // made with the first query
  std::atomic<query::Engine*> running_{nullptr};
};

}  // namespace

Class traceClass() {
  return {"Trace", &TraceFile::open, [](JsonWriter& w) {
            w.beginObject().field("config", "TraceConfig").key("methods");
            TraceFile::methods().describe(w);
            w.endObject();
          }};
}

}  // namespace tracesmith::sdk
