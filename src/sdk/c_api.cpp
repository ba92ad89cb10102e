// The C API over the classes of this library: the one place where exceptions end.
#include "tracesmith/c_api.h"

#include <cstdlib>
#include <cstring>
#include <exception>

#include "sdk/object.hpp"
#include "tracesmith/trace/schema.hpp"

struct tracesmith_object {
  std::unique_ptr<tracesmith::sdk::Object> object;
};

namespace tracesmith::sdk {
namespace {

thread_local std::string last_error;
thread_local const char* last_kind = "";

const char* kindName(Code code) {
  static constexpr const char* kNames[] = {
      "",        "invalid",   "not_found",   "corrupt",         "io",       "unsupported", "exhausted", "busy",
      "timeout", "cancelled", "unavailable", "unauthenticated", "forbidden"};
  static_assert(std::size(kNames) == kCodes);
  return kNames[static_cast<size_t>(code)];
}

/// Runs `body`, which gives a Status; false with the reason in last_error.
template <typename Body>
bool guarded(Body body) {
  last_kind = "unknown";
  try {
    Status status = body();
    last_error = status.message();
    last_kind = kindName(status.code());
    return status.ok();
  } catch (const std::bad_alloc&) {
    last_error = "there is not enough memory";
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "it failed for an unknown reason";
  }
  return false;
}

char* copyOf(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

std::string describe() {
  std::string out;
  JsonWriter w(out);
  w.beginObject().field("version", TRACESMITH_VERSION).key("tables").beginArray();
  for (const trace::TableInfo& table : trace::tables()) {
    w.beginObject().field("name", table.name).field("doc", table.doc).key("columns").beginArray();
    for (const trace::ColumnInfo& column : table.columns)
      w.beginObject().field("name", column.name).field("doc", column.doc).endObject();
    w.endArray().endObject();
  }
  w.endArray().key("classes").beginObject();
  for (const Class& c : classes()) {
    w.key(c.name);
    c.describe(w);
  }
  w.endObject().key("structs").beginObject();
  describeStructs(w);
  w.endObject().endObject();
  return out;
}

}  // namespace
}  // namespace tracesmith::sdk

using namespace tracesmith;
using namespace tracesmith::sdk;

const char* tracesmith_last_error(void) { return last_error.c_str(); }
const char* tracesmith_last_error_kind(void) { return last_kind; }

char* tracesmith_describe(void) {
  char* out = nullptr;
  guarded([&]() -> Status {
    out = copyOf(describe());
    return {};
  });
  return out;
}

tracesmith_object* tracesmith_new(const char* class_name, const char* config) {
  tracesmith_object* out = nullptr;
  guarded([&]() -> Status {
    for (const Class& c : classes()) {
      if (std::strcmp(c.name, class_name) != 0) continue;
      Result<std::unique_ptr<Object>> made = c.make(config ? config : "{}");
      if (!made) return made.status();
      out = new tracesmith_object{std::move(*made)};
      return {};
    }
    return Status::notFound(std::string("there is no class ") + class_name);
  });
  return out;
}

char* tracesmith_call(tracesmith_object* object, const char* method, const char* arguments) {
  char* out = nullptr;
  guarded([&]() -> Status {
    std::lock_guard lock(object->object->mutex);
    Result<std::string> answer = object->object->call(method, arguments ? arguments : "[]");
    if (!answer) return answer.status();
    out = copyOf(*answer);
    return {};
  });
  return out;
}

void tracesmith_delete(tracesmith_object* object) {
  guarded([&]() -> Status {
    delete object;
    return {};
  });
}

bool tracesmith_query(tracesmith_object* trace, const char* sql, ArrowArrayStream* out) {
  return guarded([&] {
    std::lock_guard lock(trace->object->mutex);
    return trace->object->query(sql, out);
  });
}

void tracesmith_interrupt(tracesmith_object* trace) { trace->object->interrupt(); }

bool tracesmith_listen(tracesmith_object* object, void (*callback)(void*, const char*), void* context) {
  return guarded([&] {
    std::lock_guard lock(object->object->mutex);
    if (!callback) return object->object->listen(nullptr);
    return object->object->listen([callback, context](const std::string& json) { callback(context, json.c_str()); });
  });
}

void tracesmith_free(char* text) { std::free(text); }
