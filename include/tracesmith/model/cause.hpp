// Why a rank or a link is slow: the causes a verdict can name, declared in cause.def.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tracesmith/common/export.hpp"

namespace tracesmith {

enum class Cause : uint8_t {
#define CAUSE(name, title, what_if, sentence, advice) name,
#include "tracesmith/model/cause.def"
};

/// How a job is replayed without the cause; cause.def says what each means.
enum class CauseWhatIf : uint8_t {
#define WHAT_IF(name, phrase) name,
#include "tracesmith/model/cause.def"
};
/// "were as fast as the others"
TRACESMITH_API const char* phraseOf(CauseWhatIf what_if);
/// The rank loses time, instead of working slowly.
inline bool losesTime(CauseWhatIf w) { return w == CauseWhatIf::late || w == CauseWhatIf::pause; }

struct CauseInfo {
  Cause cause;
  const char* name;   ///< "uneven_work": in JSON and SQL
  const char* title;  ///< "more work than others": for people
  CauseWhatIf what_if;
  const char* sentence;  ///< for printf, with up to two doubles; may be empty
  const char* advice;    ///< with {gpu}
};

/// All of them, in the order of the enum.
TRACESMITH_API std::span<const CauseInfo> causes();
TRACESMITH_API const CauseInfo& info(Cause cause);
inline const char* nameOf(Cause cause) { return info(cause).name; }
inline const char* titleOf(Cause cause) { return info(cause).title; }
/// Cause::unknown if there is none of that name.
TRACESMITH_API Cause causeNamed(std::string_view name);
/// The evidence with what was measured.
TRACESMITH_API std::string sentenceOf(Cause cause, double a, double b = 0);
/// What to do next. `gpu`: "GPU 3 of node1"; empty: "its GPU".
TRACESMITH_API std::string adviceOf(Cause cause, const std::string& gpu = {});

}  // namespace tracesmith
