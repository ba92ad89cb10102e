#include "trace/category.hpp"

namespace tracesmith::trace {
namespace {

struct Category {
  std::string_view name;
  EventType type;
};

// The first name of a type is the one Kineto writes today.
constexpr Category kCategories[] = {
    {"cpu_op", EventType::cpu_op},
    {"python_function", EventType::python},
    {"cuda_runtime", EventType::runtime},
    {"kernel", EventType::kernel},
    {"gpu_memcpy", EventType::memcpy},
    {"gpu_memset", EventType::memset},
    {"user_annotation", EventType::annotation},
    {"gpu_user_annotation", EventType::gpu_annotation},
    {"cuda_driver", EventType::driver},
    {"cuda_sync", EventType::sync},
    {"overhead", EventType::overhead},
    {"Operator", EventType::cpu_op},
    {"Kernel", EventType::kernel},
    {"Memcpy", EventType::memcpy},
    {"Memset", EventType::memset},
    {"Runtime", EventType::runtime},
    {"hip_runtime", EventType::runtime},
    {"hip runtime", EventType::runtime},
    {"hip_driver", EventType::driver},
    {"hip_sync", EventType::sync},
};

}  // namespace

EventType typeOfCategory(std::string_view category) {
  for (const Category& c : kCategories)
    if (c.name == category) return c.type;
  // Calls of any other accelerator's libraries: xpu_runtime, mtia_runtime, privateuse1_driver, …
  if (category.ends_with("_runtime")) return EventType::runtime;
  if (category.ends_with("_driver")) return EventType::driver;
  return EventType::other;
}

EventType typeOfDeviceCategory(std::string_view category) {
  auto has = [&](std::string_view word) { return category.find(word) != category.npos; };
  if (category == "cuda_event") return EventType::other;  // a mark in a stream, not work
  if (has("memcpy")) return EventType::memcpy;
  if (has("memset")) return EventType::memset;
  if (has("annotation")) return EventType::gpu_annotation;
  return has("sync") ? EventType::sync : EventType::kernel;
}

std::string_view categoryOf(EventType type) {
  for (const Category& c : kCategories)
    if (c.type == type) return c.name;
  return {};
}

}  // namespace tracesmith::trace
