// The classes of libtracesmith_c.so.
#include "sdk/object.hpp"
#include "sdk/structs.hpp"
#include "sdk/trace_object.hpp"

namespace tracesmith::sdk {

const std::vector<Class>& classes() {
  static const auto* list = new std::vector<Class>{traceClass()};
  return *list;
}

void describeStructs(JsonWriter& w) {
  auto one = [&]<typename T>(const T& begins) {
    w.key(structName(&begins));
    write(w, begins);
  };
  one(TraceConfig{});
  one(AnalyzeConfig{});
  one(DiffConfig{});
}

}  // namespace tracesmith::sdk
