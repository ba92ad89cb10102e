// Makes classes of the C API from C++ classes: methods are listed by name, and what they take and give comes from their
// types.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "sdk/json.hpp"
#include "sdk/object.hpp"

namespace tracesmith::sdk {

/// A list of methods of T. A method is a member function or a function that takes T& first.
template <typename T>
class Methods {
 public:
  using Call = std::function<Status(T&, simdjson::dom::array, JsonWriter&)>;
  struct Method {
    std::string name, gives;
    std::vector<std::string> takes;
    Call call;
  };

  template <typename C, typename R, typename... A>
  Methods& add(const char* name, R (C::*method)(A...)) {
    return function<R, A...>(name, [method](T& object, A... a) -> R { return (object.*method)(a...); });
  }
  template <typename C, typename R, typename... A>
  Methods& add(const char* name, R (C::*method)(A...) const) {
    return function<R, A...>(name, [method](T& object, A... a) -> R { return (object.*method)(a...); });
  }
  template <typename R, typename... A>
  Methods& add(const char* name, R (*method)(T&, A...)) {
    return function<R, A...>(name, method);
  }

  Status call(T& object, const std::string& name, std::string_view arguments, JsonWriter& w) const {
    for (const Method& method : list_) {
      if (method.name != name) continue;
      simdjson::dom::parser parser;
      Json json;
      TS_TRY(parse(parser, arguments, json));
      simdjson::dom::array array;
      if (json.get(array)) return Status::invalid("arguments must be a list");
      if (array.size() > method.takes.size())
        return Status::invalid(name + "() takes at most " + std::to_string(method.takes.size()) + ", not " +
                               std::to_string(array.size()));
      return method.call(object, array, w);
    }
    return Status::notFound("there is no method " + name + "()");
  }

  void describe(JsonWriter& w) const {
    w.beginObject();
    for (const Method& m : list_) {
      w.key(m.name).beginObject().key("takes");
      write(w, m.takes);
      w.field("gives", m.gives).endObject();
    }
    w.endObject();
  }

 private:
  template <typename R>
  struct Answer {
    using type = R;
  };
  template <typename R>
  struct Answer<Result<R>> {
    using type = R;
  };

  template <typename R, typename... A, typename F>
  Methods& function(const char* name, F f) {
    using Value = std::remove_cvref_t<typename Answer<std::remove_cvref_t<R>>::type>;
    constexpr bool no_answer = std::is_void_v<R> || std::is_same_v<Value, Status>;
    Call call = [f, name](T& object, simdjson::dom::array array, JsonWriter& w) -> Status {
      std::tuple<std::remove_cvref_t<A>...> arguments;
      Status status;
      size_t at = 0;
      [[maybe_unused]] auto one = [&](auto& value) {
        Json json;
        if (!status || at >= array.size() || array.at(at++).get(json)) return;
        status = read(json, value);
      };
      std::apply([&](auto&... each) { (one(each), ...); }, arguments);
      if (!status)
        return Status::invalid(std::string(name) + "(): argument " + std::to_string(at) + " " + status.message());
      auto invoke = [&](auto&... each) -> decltype(auto) { return f(object, each...); };
      if constexpr (std::is_void_v<R>) {
        std::apply(invoke, arguments);
        w.null();
      } else {
        decltype(auto) answer = std::apply(invoke, arguments);
        if constexpr (std::is_same_v<Value, Status>) {
          TS_TRY(answer);
          w.null();
        } else if constexpr (!std::is_same_v<Value, std::remove_cvref_t<R>>) {
          if (!answer) return answer.status();
          write(w, *answer);
        } else {
          write(w, answer);
        }
      }
      return {};
    };
    list_.push_back({name,
                     typeName<std::conditional_t<no_answer, void, Value>>(),
                     {typeName<std::remove_cvref_t<A>>()...},
                     std::move(call)});
    return *this;
  }

  std::vector<Method> list_;
};

/// An object of T, which is made from a Config. `methods` and `subscribe` are of its class.
template <typename T, typename Config, const Methods<T>& (*methods)(),
          Status (*subscribe)(T&, Object::Listener) = nullptr>
class Bound final : public Object {
 public:
  explicit Bound(const Config& config) : object_(config) {}

  Result<std::string> call(const std::string& method, std::string_view arguments) override {
    std::string out;
    JsonWriter w(out);
    if (Status status = methods().call(object_, method, arguments, w); !status) return status;
    return out;
  }
  Status listen(Listener listener) override {
    if constexpr (subscribe != nullptr)
      return subscribe(object_, std::move(listener));
    else
      return Object::listen(std::move(listener));
  }

  static Class of(const char* name) {
    return {name,
            [](std::string_view json) -> Result<std::unique_ptr<Object>> {
              simdjson::dom::parser parser;
              Json parsed;
              Config config;
              TS_TRY(parse(parser, json, parsed));
              TS_TRY(read(parsed, config));
              return std::unique_ptr<Object>(std::make_unique<Bound>(config));
            },
            [](JsonWriter& w) {
              w.beginObject().field("config", structName(static_cast<const Config*>(nullptr))).key("methods");
              methods().describe(w);
              w.endObject();
            }};
  }

 private:
  T object_;
};

}  // namespace tracesmith::sdk
