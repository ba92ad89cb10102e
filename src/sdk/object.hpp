// What the C API hands out: objects with methods that take and give JSON. Each of the two libraries has its own
// classes.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "tracesmith/common/status.hpp"

struct ArrowArrayStream;

namespace tracesmith::sdk {

class Object {
 public:
  virtual ~Object() = default;
  /// Calls a method with a JSON array of arguments; the answer is JSON. One at a time.
  virtual Result<std::string> call(const std::string& method, std::string_view arguments) = 0;
  virtual Status query(const std::string&, ArrowArrayStream*) { return Status::invalid("only a Trace can be queried"); }
  virtual void interrupt() {}
  using Listener = std::function<void(const std::string& json)>;
  virtual Status listen(Listener) { return Status::invalid("this object sends no events"); }

  std::mutex mutex;  // held while call(), query() and listen() run
};

/// A class as describe() tells of it.
struct Class {
  const char* name;
  Result<std::unique_ptr<Object>> (*make)(std::string_view config);
  void (*describe)(JsonWriter& w);  ///< {"config": name of a struct, "methods": {…}}
};

/// The classes of this library.
const std::vector<Class>& classes();
/// "name": {"field": {"type", "value"}, …} for each struct that its classes take or give.
void describeStructs(JsonWriter& w);

}  // namespace tracesmith::sdk
