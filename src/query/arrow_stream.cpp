#include "query/arrow_stream.hpp"

#include <cerrno>
#include <duckdb/common/arrow/arrow.hpp>
#include <duckdb/common/arrow/result_arrow_wrapper.hpp>

namespace tracesmith::query {
namespace {

constexpr duckdb::idx_t kBatchRows = 1 << 16;

/// DuckDB's stream, and what it needs. The consumer's thread is the only one that uses it.
struct Held {
  std::shared_ptr<void> keep;
  ArrowArrayStream inner{};
  std::string error;

  ~Held() {
    if (inner.release) inner.release(&inner);  // before what it needs
  }
};

Held& heldBy(ArrowArrayStream* stream) { return *static_cast<Held*>(stream->private_data); }

/// Nothing may be thrown into the consumer.
template <typename Body>
int guarded(Held& held, Body body) {
  try {
    held.error.clear();
    return body();
  } catch (const std::exception& error) {
    held.error = error.what();
  } catch (...) {
    held.error = "the query failed for an unknown reason";
  }
  return EIO;
}

int getSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  Held& held = heldBy(stream);
  return guarded(held, [&] { return held.inner.get_schema(&held.inner, out); });
}

int getNext(ArrowArrayStream* stream, ArrowArray* out) {
  Held& held = heldBy(stream);
  return guarded(held, [&] { return held.inner.get_next(&held.inner, out); });
}

const char* lastError(ArrowArrayStream* stream) {
  Held& held = heldBy(stream);
  return held.error.empty() ? held.inner.get_last_error(&held.inner) : held.error.c_str();
}

void release(ArrowArrayStream* stream) {
  delete &heldBy(stream);
  stream->private_data = nullptr;
  stream->release = nullptr;
}

}  // namespace

void makeArrowStream(duckdb::unique_ptr<duckdb::QueryResult> result, std::shared_ptr<void> keep,
                     ArrowArrayStream* out) {
  auto held = std::make_unique<Held>();
  held->keep = std::move(keep);
  auto* wrapper = new duckdb::ResultArrowArrayStreamWrapper(std::move(result), kBatchRows);
  held->inner = wrapper->stream;  // whose release() deletes the wrapper
  out->get_schema = getSchema;
  out->get_next = getNext;
  out->get_last_error = lastError;
  out->release = release;
  out->private_data = held.release();
}

}  // namespace tracesmith::query
