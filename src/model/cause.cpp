#include "tracesmith/model/cause.hpp"

#include <cstdio>

namespace tracesmith {
namespace {

constexpr CauseInfo kCauses[] = {
#define CAUSE(name, title, what_if, sentence, advice) \
  {Cause::name, #name, title, CauseWhatIf::what_if, sentence, advice},
#include "tracesmith/model/cause.def"
};

constexpr const char* kPhrases[] = {
#define WHAT_IF(name, phrase) phrase,
#include "tracesmith/model/cause.def"
};

}  // namespace

std::span<const CauseInfo> causes() { return kCauses; }

const char* phraseOf(CauseWhatIf what_if) { return kPhrases[static_cast<size_t>(what_if)]; }

const CauseInfo& info(Cause cause) { return kCauses[static_cast<size_t>(cause)]; }

Cause causeNamed(std::string_view name) {
  for (const CauseInfo& c : kCauses)
    if (name == c.name) return c.cause;
  return Cause::unknown;
}

std::string sentenceOf(Cause cause, double a, double b) {
  char text[320];
  std::snprintf(text, sizeof text, info(cause).sentence, a, b);
  return text;
}

std::string adviceOf(Cause cause, const std::string& gpu) {
  constexpr std::string_view kGpu = "{gpu}";
  std::string text = info(cause).advice;
  for (size_t at; (at = text.find(kGpu)) != std::string::npos;)
    text.replace(at, kGpu.size(), gpu.empty() ? "its GPU" : gpu);
  return text;
}

}  // namespace tracesmith
